//! Ports change without a start, where the runtime can.

use sandbox_model::{PortForward, SandboxName, SandboxSpec, Status};
use sandbox_runtime::{RuntimeError, SandboxInfo};

use super::ports;
use crate::{Context, LifecycleError, Result, Target, sandbox_name};

/// The sandbox that is there, with its ports as wanted where that can be.
pub fn inspect(
    context: &Context<'_>,
    name: &SandboxName,
    wanted: &SandboxSpec,
) -> Result<Option<SandboxInfo>> {
    let mut existing = context.runtime.inspect(name)?;
    if let Some(existing) = &mut existing {
        settle(context, existing, wanted)?;
    }
    Ok(existing)
}

/// Makes the ports of a sandbox the wanted ones as far as that disturbs nobody: one at rest has just those
/// afterwards, with its saved memory; one that runs has those as well as whatever others may be using.
pub fn settle(context: &Context<'_>, info: &mut SandboxInfo, wanted: &SandboxSpec) -> Result<()> {
    let Some((open, close)) = difference(&info.status, &info.spec.ports, &wanted.ports) else {
        return Ok(());
    };
    let name = &info.spec.name;
    if !context.runtime.capabilities_for(name)?.live_ports {
        return Ok(());
    }
    if info.status == Status::Running {
        ports::check(&open, &info.spec.ports)?;
        context.reporter.info(&format!("opened while it runs: {}", list(&open)));
    }
    let gone: Vec<PortForward> = close.iter().filter(|port| !open.contains(port)).copied().collect();
    if !gone.is_empty() {
        // Those that were added while it ran are among them.
        context.reporter.info(&format!("not published any more, for no setting has it: {}", list(&gone)));
    }
    context.runtime.change_ports(name, &open, &close)?;
    info.spec.change_ports(&open, &close);
    Ok(())
}

/// What to open and to close, where there is anything.
fn difference(
    status: &Status,
    have: &[PortForward],
    want: &[PortForward],
) -> Option<(Vec<PortForward>, Vec<PortForward>)> {
    if status.is_at_rest() {
        return (have != want).then(|| (want.to_vec(), have.to_vec()));
    }
    let missing: Vec<PortForward> = want.iter().filter(|port| !have.contains(port)).copied().collect();
    (*status == Status::Running && !missing.is_empty()).then(|| (missing, Vec::new()))
}

fn list(ports: &[PortForward]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The published ports of a running sandbox.
pub fn published(context: &Context<'_>, target: &Target) -> Result<(SandboxName, Vec<PortForward>)> {
    let name = sandbox_name(context, target)?;
    let Some(info) = context.runtime.inspect(&name)? else { return Err(LifecycleError::NoSuchSandbox(name)) };
    if info.status == Status::Running {
        return Ok((name, info.spec.ports));
    }
    Err(RuntimeError::WrongStatus { name, status: info.status, action: "change its ports" }.into())
}

/// Opens and closes ports of a running sandbox, until it next starts.
pub fn change(
    context: &Context<'_>,
    target: &Target,
    open: &[PortForward],
    close: &[PortForward],
) -> Result<()> {
    let (name, own) = published(context, target)?;
    ports::check(open, &own)?;
    Ok(context.runtime.change_ports(&name, open, close)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_loses_no_port_and_what_rests_has_just_what_is_wanted() {
        let ports = |text: &str| -> Vec<PortForward> {
            text.split_whitespace().map(|port| port.parse().unwrap()).collect()
        };
        let change = |status, have, want| difference(&status, &ports(have), &ports(want));
        assert_eq!(change(Status::Running, "1:1 2:2", "2:2 3:3"), Some((ports("3:3"), vec![])));
        assert_eq!(change(Status::Running, "1:1 2:2", "2:2"), None);
        assert_eq!(change(Status::Stopped, "1:1 2:2", "2:2"), Some((ports("2:2"), ports("1:1 2:2"))));
        assert_eq!(change(Status::Stopped, "1:1", "1:1"), None);
        assert_eq!(change(Status::Draining, "", "1:1"), None);
    }
}
