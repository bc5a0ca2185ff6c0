use std::path::PathBuf;

use crate::{Context, Result, Target, sandbox_name};

/// A log on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// `console`, `machine`, `keeper`, `ssh-agent`.
    pub name: &'static str,
    /// May not exist yet.
    pub path: PathBuf,
}

/// The logs of a sandbox: the runtime's own and the keeper's.
pub fn logs(context: &Context<'_>, target: &Target) -> Result<Vec<Log>> {
    let runtime = context.runtime.logs(&sandbox_name(context, target)?)?;
    let keeper = context.layout.sandbox_state(&target.checkout, target.agent).keeper();
    let logs = runtime.into_iter().map(|log| Log { name: log.name, path: log.path });
    let own =
        [Log { name: "keeper", path: keeper.log }, Log { name: "ssh-agent", path: keeper.ssh_agent_log }];
    Ok(logs.chain(own).collect())
}
