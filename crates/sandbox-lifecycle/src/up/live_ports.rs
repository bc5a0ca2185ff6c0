//! Ports change without a start, where the runtime can.

use sandbox_model::{PortForward, SandboxName, SandboxSpec, Status};
use sandbox_runtime::{RuntimeError, SandboxInfo};

use super::port_holder::overlap;
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
/// afterwards, and where it sleeps those that were added to it; one that runs has them as well as whatever others
/// may be using.
pub fn settle(context: &Context<'_>, info: &mut SandboxInfo, wanted: &SandboxSpec) -> Result<()> {
    give_up_taken(context, info, &wanted.ports)?;
    let (open, close) = difference(info, &wanted.ports);
    if open.is_empty() && close.is_empty() {
        return Ok(());
    }
    let name = &info.spec.name;
    if !context.runtime.capabilities_for(name)?.live_ports {
        return Ok(());
    }
    if info.status == Status::Running {
        ports::check_beside(context, &open, &info.spec.ports)?;
    }
    match change(context, info, &open, &close) {
        // One that an earlier version started: it differs, then, and is dealt with as such.
        Err(LifecycleError::Runtime(RuntimeError::Unsupported(_))) => return Ok(()),
        other => other?,
    }
    if info.status == Status::Running {
        context.reporter.info(&format!("opened while it runs: {}", list(&open)));
    }
    let gone: Vec<PortForward> = close.iter().filter(|port| !open.contains(port)).copied().collect();
    if !gone.is_empty() {
        // Those that were added before it stopped are among them.
        context.reporter.info(&format!("not published any more, for no setting has it: {}", list(&gone)));
    }
    Ok(())
}

/// A sandbox that sleeps wakes without those that were added to it and that another program has by now.
fn give_up_taken(context: &Context<'_>, info: &mut SandboxInfo, want: &[PortForward]) -> Result<()> {
    if !info.status.is_at_rest() {
        return Ok(());
    }
    let mut taken = Vec::new();
    for port in info.spec.ports.iter().filter(|port| stays(info, port, want)) {
        if let Err(problem) = ports::check(context, &[*port], &[]) {
            context.reporter.warning(&format!("{problem}; the sandbox wakes without it"));
            taken.push(*port);
        }
    }
    if taken.is_empty() { Ok(()) } else { change(context, info, &[], &taken) }
}

fn change(
    context: &Context<'_>,
    info: &mut SandboxInfo,
    open: &[PortForward],
    close: &[PortForward],
) -> Result<()> {
    context.runtime.change_ports(&info.spec.name, open, close)?;
    info.spec.change_ports(open, close);
    info.added_ports.retain(|port| !close.contains(port));
    Ok(())
}

/// `wanted`, with what stays of the ports that were added to the sandbox that is there, all in the order in which that
/// has them: what differs otherwise is a change of the settings.
pub fn with_added(info: Option<&SandboxInfo>, wanted: &SandboxSpec) -> SandboxSpec {
    let mut wanted = wanted.clone();
    if let Some(info) = info {
        let have = &info.spec.ports;
        let stay = have.iter().filter(|port| wanted.ports.contains(port) || stays(info, port, &wanted.ports));
        let new = wanted.ports.iter().filter(|port| !have.contains(port));
        wanted.ports = stay.chain(new).copied().collect();
    }
    wanted
}

/// Whether a port that was added stays beside the wanted ones: until its sandbox stops with nothing saved, or a setting
/// has its place.
fn stays(info: &SandboxInfo, port: &PortForward, want: &[PortForward]) -> bool {
    let goes_on = !info.status.is_at_rest() || info.saved_memory.is_some();
    goes_on && info.added_ports.contains(port) && !want.iter().any(|wanted| share_place(wanted, port))
}

/// Whether only one of them can be listened on.
fn share_place(one: &PortForward, other: &PortForward) -> bool {
    let others = other.addresses();
    one.addresses().into_iter().any(|address| others.iter().any(|other| overlap(address, *other)))
}

/// What to open and to close.
fn difference(info: &SandboxInfo, want: &[PortForward]) -> (Vec<PortForward>, Vec<PortForward>) {
    let have = &info.spec.ports;
    let mut close = Vec::new();
    if info.status.is_at_rest() {
        // One that boots knows of nothing that was added, also where a setting has it by now.
        let forgets = info.saved_memory.is_none();
        let goes = |port: &&PortForward| {
            !want.contains(port) && !stays(info, port, want) || forgets && info.added_ports.contains(port)
        };
        close.extend(have.iter().filter(goes).copied());
    } else if info.status != Status::Running {
        return (Vec::new(), close);
    }
    let missing = |port: &&PortForward| !have.contains(port) || close.contains(port);
    (want.iter().filter(missing).copied().collect(), close)
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

/// Opens ports of a running sandbox, until they are removed or it stops with nothing saved.
pub fn add(context: &Context<'_>, target: &Target, ports: &[PortForward]) -> Result<()> {
    let (name, own) = published(context, target)?;
    ports::check_beside(context, ports, &own)?;
    Ok(context.runtime.add_ports(&name, ports)?)
}

/// Closes ports of a running sandbox.
pub fn remove(context: &Context<'_>, target: &Target, ports: &[PortForward]) -> Result<()> {
    let (name, _) = published(context, target)?;
    Ok(context.runtime.change_ports(&name, &[], ports)?)
}

#[cfg(test)]
mod tests {
    use sandbox_model::ByteSize;

    use super::*;
    use crate::up::spec::tests::example;

    fn ports(text: &str) -> Vec<PortForward> {
        text.split_whitespace().map(|port| port.parse().unwrap()).collect()
    }

    fn info(status: Status, asleep: bool, have: &str, added: &str) -> SandboxInfo {
        SandboxInfo {
            spec: SandboxSpec { ports: ports(have), ..example() },
            status,
            created: 1,
            updated: 1,
            problem: None,
            saved_memory: asleep.then_some(ByteSize::mib(1)),
            added_ports: ports(added),
        }
    }

    #[test]
    fn what_runs_loses_no_port_and_what_rests_has_just_what_is_wanted() {
        let change = |status, have, want| difference(&info(status, false, have, ""), &ports(want));
        assert_eq!(change(Status::Running, "1:1 2:2", "2:2 3:3"), (ports("3:3"), vec![]));
        assert_eq!(change(Status::Running, "1:1 2:2", "2:2"), (vec![], vec![]));
        assert_eq!(change(Status::Stopped, "1:1 2:2", "2:2 3:3"), (ports("3:3"), ports("1:1")));
        assert_eq!(change(Status::Stopped, "1:1 2:2", "2:2 1:1"), (vec![], vec![]));
        assert_eq!(change(Status::Draining, "", "1:1"), (vec![], vec![]));
    }

    #[test]
    fn what_was_added_stays_over_a_sleep_and_no_longer() {
        let change = |asleep, have, added, want| {
            let mut info = info(Status::Stopped, asleep, have, added);
            let (open, close) = difference(&info, &ports(want));
            info.spec.change_ports(&open, &close);
            info.added_ports.retain(|port| !close.contains(port));
            let wanted = SandboxSpec { ports: ports(want), ..example() };
            assert_eq!(with_added(Some(&info), &wanted), info.spec, "{have}, added {added}, wanted {want}");
            (info.spec.ports, info.added_ports)
        };
        let are = |all, added| (ports(all), ports(added));
        assert_eq!(change(true, "1:1 2:2", "1:1", "2:2"), are("1:1 2:2", "1:1"));
        assert_eq!(change(true, "1:1 2:2 3:3", "1:1", "4:4"), are("1:1 4:4", "1:1"));
        assert_eq!(change(true, "1:1", "1:1", "1:1"), are("1:1", "1:1"));
        assert_eq!(change(false, "1:1 2:2", "1:1", "2:2"), are("2:2", ""));
        assert_eq!(change(false, "1:1", "1:1", "1:1"), are("1:1", ""));
        // A setting takes its place.
        assert_eq!(change(true, "1:1", "1:1", "1:2"), are("1:2", ""));
        assert_eq!(change(true, "1:1", "1:1", "0.0.0.0:1:1"), are("0.0.0.0:1:1", ""));
        assert_eq!(
            change(true, "127.0.0.2:1:1", "127.0.0.2:1:1", "1:1"),
            are("127.0.0.2:1:1 1:1", "127.0.0.2:1:1")
        );
    }

    #[test]
    fn what_was_added_is_no_change_that_waits() {
        let wanted = |text| SandboxSpec { ports: ports(text), ..example() };
        let have = info(Status::Running, false, "1:1 2:2", "2:2");
        assert_eq!(with_added(Some(&have), &wanted("1:1")).ports, ports("1:1 2:2"));
        // And what a setting had is one.
        assert_eq!(with_added(Some(&have), &wanted("")).ports, ports("2:2"));
        assert_eq!(with_added(None, &wanted("1:1")).ports, ports("1:1"));
    }
}
