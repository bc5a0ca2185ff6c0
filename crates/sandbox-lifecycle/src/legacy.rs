//! Names that earlier versions gave: they carried the vendor's name in front.

use sandbox_model::SandboxName;

use crate::{Context, Result, Target};

const SANDBOX: &str = "agents-sandbox-vm-";

/// What is behind the prefix of an earlier version, where there is one.
pub fn without_prefix(name: &str) -> &str {
    name.strip_prefix(SANDBOX).unwrap_or(name)
}

/// The names that a target's sandbox may have, today's first.
pub fn names(target: &Target) -> Vec<SandboxName> {
    let name = target.name();
    let old = format!("{SANDBOX}{name}").parse();
    std::iter::once(name).chain(old).collect()
}

/// The name of the target's sandbox: that of an earlier version where only such a one is there. It keeps it
/// until it is made anew.
pub fn sandbox_name(context: &Context<'_>, target: &Target) -> Result<SandboxName> {
    let name = target.name();
    // What it is at is another question, which a runtime that hangs does not answer.
    if context.runtime.has(&name)? {
        return Ok(name);
    }
    // An old record that cannot be read is a row of its own in every list, and in nobody's way.
    let there = |name: &SandboxName| context.runtime.inspect(name).is_ok_and(|info| info.is_some());
    Ok(names(target).into_iter().skip(1).find(there).unwrap_or(name))
}
