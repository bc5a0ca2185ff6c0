//! Git worktrees inside the sandbox, made by the agent's server, so that a session leaves the checkout alone.

mod held;
mod wish;

use std::path::PathBuf;
use std::time::Duration;

use sandbox_agents::{Server, Worktree, create_worktree, profile, remove_worktree, worktrees};
use sandbox_model::{ExecSpec, GUEST_HOME, GUEST_WORKSPACE, Status};
use sandbox_runtime::Collected;
use sandbox_state::{DaemonRecord, read_record};

use crate::{Context, Daemon, LifecycleError, Result, Target, Up, sandbox_name};

pub use held::Held;
pub use wish::{InvalidWorktree, WorktreeWish};

/// Making one checks its files out only after the answer, but a large repository takes its time before.
const PATIENCE: Duration = Duration::from_mins(2);

/// For a script in the guest: [`READY`] waits for 1200 turns, and a turn without hardware virtualization takes half a
/// second.
const WITHIN: Duration = Duration::from_mins(15);

/// For a list, which a person waits for.
const QUICK: Duration = Duration::from_secs(5);

/// The commit that `$2` is in the repository at `$1`.
const RESOLVE: &str = r#"git -C "$1" rev-parse --verify --quiet --end-of-options "$2^{commit}""#;

/// Until the files of the worktree `$1` are those of its `HEAD`, which is the commit `$2` where one is given.
const READY: &str = r#"n=0
while [ $n -lt 1200 ]; do
  head=$(git -C "$1" rev-parse --verify --quiet HEAD) && { [ -z "$2" ] || [ "$head" = "$2" ]; } &&
    git -C "$1" diff --quiet HEAD 2>/dev/null && exit 0
  sleep 0.1; n=$((n+1))
done
git -C "$1" status --short --branch | head -n 5 >&2; exit 1"#;

/// Where the agent is to work: a worktree that was there, or was made for this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// As the agent's server tells it.
    pub worktree: Worktree,
    /// It was made just now; otherwise it was there, and is as it was.
    pub created: bool,
}

/// Opens the worktree, making it where it is not there. The base is resolved before anything is made; one
/// that is there keeps its own.
pub fn open_worktree(context: &Context<'_>, up: &Up, daemon: &Daemon, wish: &WorktreeWish) -> Result<Opened> {
    let server = server(context, up, daemon)?;
    let failed = |problem: String| LifecycleError::Worktree { name: wish.name.clone(), problem };
    let known = worktrees(&server, GUEST_WORKSPACE).map_err(|error| failed(error.to_string()))?;
    if let Some(worktree) = known.into_iter().find(|known| known.name == wish.name) {
        if let Some(base) = &wish.base {
            context.reporter.warning(&format!(
                "the worktree {} is there already, so `{base}` was not looked at",
                wish.name
            ));
        }
        return Ok(Opened { worktree, created: false });
    }
    let base = wish.base.as_deref().map(|base| resolve(context, up, base).map_err(failed)).transpose()?;
    let step = context.reporter.begin("making the worktree");
    let worktree = create_worktree(&server, GUEST_WORKSPACE, GUEST_HOME, &wish.name, base.as_deref())
        .map_err(|error| failed(error.to_string()))?;
    let ready = run(context, up, READY, &[&worktree.directory, base.as_deref().unwrap_or_default()])?;
    if !ready.status.success() {
        return Err(failed(format!(
            "its files in {} do not come: {}",
            worktree.directory,
            String::from_utf8_lossy(&ready.stderr).trim()
        )));
    }
    step.finish(None);
    Ok(Opened { worktree, created: true })
}

/// Every worktree that the agent's server knows of, where it answers just now; `None` where it does not.
/// Starts nothing and waits for nobody.
pub fn list_worktrees(context: &Context<'_>, target: &Target) -> Result<Option<Vec<Worktree>>> {
    let Some(of_agent) = &profile(target.agent)?.daemon else {
        return Err(LifecycleError::NoServer { agent: target.agent });
    };
    let name = sandbox_name(context, target)?;
    let running = context.runtime.inspect(&name)?.is_some_and(|info| info.status == Status::Running);
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let record = read_record::<DaemonRecord>(&files.daemon())?.filter(|_| running);
    let Some(record) = record else { return Ok(None) };
    let dial = || context.runtime.dial(&name, record.port);
    let server = Server::new(of_agent, Box::new(dial), &record.password, QUICK);
    // Whatever keeps it from answering: the repository knows them too.
    Ok(worktrees(&server, GUEST_WORKSPACE).ok())
}

/// Those in the guest's home that the checkout's repository knows, read on the host.
pub fn worktrees_of_checkout(folders: impl IntoIterator<Item = PathBuf>) -> Vec<Worktree> {
    let inside = folders.into_iter().filter(|folder| folder.starts_with(GUEST_HOME));
    inside.map(|folder| Worktree::new(folder.to_string_lossy().into_owned())).collect()
}

/// Removes a worktree and its branch. Without `force` one that has what nothing else has stays, and is an
/// error.
pub fn drop_worktree(
    context: &Context<'_>,
    up: &Up,
    daemon: &Daemon,
    name: &str,
    force: bool,
) -> Result<Worktree> {
    let server = server(context, up, daemon)?;
    let failed = |problem: String| LifecycleError::Worktree { name: name.into(), problem };
    let known = worktrees(&server, GUEST_WORKSPACE).map_err(|error| failed(error.to_string()))?;
    let Some(worktree) = known.into_iter().find(|known| known.name == name) else {
        return Err(LifecycleError::NoSuchWorktree(name.into()));
    };
    if !force {
        match held::held(context, up, &worktree.directory, name)? {
            Ok(held) if held.is_nothing() => {}
            Ok(held) => return Err(LifecycleError::WorktreeHolds { name: name.into(), held }),
            Err(problem) => return Err(LifecycleError::WorktreeUnknown { name: name.into(), problem }),
        }
    }
    remove_worktree(&server, GUEST_WORKSPACE, &worktree.directory)
        .map_err(|error| failed(error.to_string()))?;
    Ok(worktree)
}

fn server<'a>(context: &'a Context<'_>, up: &'a Up, daemon: &'a Daemon) -> Result<Server<'a>> {
    let Some(of_agent) = &up.profile.daemon else {
        return Err(LifecycleError::NoServer { agent: up.profile.name });
    };
    let dial = || context.runtime.dial(&up.name, daemon.port);
    Ok(Server::new(of_agent, Box::new(dial), &daemon.password, PATIENCE))
}

/// The whole hash; the error is a sentence.
fn resolve(context: &Context<'_>, up: &Up, base: &str) -> Result<String, String> {
    let found = run(context, up, RESOLVE, &[GUEST_WORKSPACE, base]).map_err(|error| error.to_string())?;
    let hash = String::from_utf8_lossy(&found.stdout).trim().to_string();
    // It becomes part of a command line that the server runs.
    if found.status.success() && is_hash(&hash) {
        return Ok(hash);
    }
    let said = String::from_utf8_lossy(&found.stderr).trim().to_string();
    let why = if said.is_empty() { String::new() } else { format!(": {said}") };
    Err(format!("`{base}` is no commit of this repository{why}"))
}

/// A whole one.
fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn run(context: &Context<'_>, up: &Up, script: &str, words: &[&str]) -> Result<Collected> {
    let argv = ["sh", "-c", script, "agents-sandbox"].into_iter().chain(words.iter().copied());
    let session = context.runtime.exec(&up.name, &ExecSpec::new(argv))?;
    Ok(session.collect_within("a script for worktrees", WITHIN)?)
}
