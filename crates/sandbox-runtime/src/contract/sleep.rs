//! Memory that is saved by a stop and comes back with a start.

use std::time::Duration;

use sandbox_model::{ExecSpec, PortForward, Status};

use super::check::{check, check_eq, check_error, fail};
use super::sandbox::{Sandbox, is_lost, read_text};
use super::{Case, Harness, Outcome, Power};
use crate::{RuntimeError, StopOutcome};

pub(super) const CASES: &[Case] = &[
    Case::with(Power::Sleep, "what_runs_goes_on_after_a_sleep", goes_on),
    Case::with(Power::Sleep, "a_sleeping_sandbox_is_stopped", is_stopped),
    Case::with(Power::Sleep, "the_host_is_seen_as_it_is_after_a_sleep", sees_the_host),
    Case::with(Power::Sleep, "memory_can_be_forgotten", forgotten),
    Case::with(Power::Sleep, "an_update_drops_the_memory", update_drops),
    Case::with(Power::Sleep, "a_sleep_meant_for_another_boot_changes_nothing", sleep_of_another_boot),
    Case::with(Power::Sleep, "a_sandbox_that_may_not_sleep_is_stopped", may_not),
    Case::with(Power::Sleep, "a_sleep_ends_attended_commands", ends_attended),
    Case::with(Power::SleepingPorts, "ports_that_were_added_are_known_after_a_sleep", added_ports),
];

const GRACE: Duration = Duration::from_secs(10);

fn started(harness: &dyn Harness) -> Outcome<Sandbox<'_>> {
    let mut sandbox = Sandbox::plan(harness)?;
    sandbox.spec.sleep = true;
    sandbox.create()?;
    sandbox.runtime().start(sandbox.name())?;
    Ok(sandbox)
}

fn fall_asleep(sandbox: &Sandbox<'_>) -> Outcome {
    let slept = sandbox.runtime().sleep(sandbox.name(), None, GRACE)?;
    check_eq!((slept.outcome, slept.why_not), (StopOutcome::Asleep, None), "how it fell asleep");
    Ok(())
}

fn saved(sandbox: &Sandbox<'_>) -> Outcome<bool> {
    match sandbox.runtime().inspect(sandbox.name())? {
        Some(info) => Ok(info.saved_memory.is_some()),
        None => fail!("{} is gone", sandbox.name()),
    }
}

/// A program that nobody attends and that counts in the workspace.
fn start_counting(sandbox: &Sandbox<'_>) -> Outcome {
    let script = "i=0; while :; do i=$((i+1)); echo $i $$ > next; mv next counter; sleep 0.05; done";
    let spec = ExecSpec { detach: true, ..ExecSpec::new(["sh", "-c", script]) };
    sandbox.exec(&spec)?;
    sandbox.wait_until("it counts", || Ok(sandbox.host("counter").is_file()))
}

/// How far it has counted, and its process.
fn counted(sandbox: &Sandbox<'_>) -> Outcome<(u64, String)> {
    let text = read_text(&sandbox.host("counter"))?;
    match text.split_once(' ').and_then(|(count, pid)| Some((count.parse().ok()?, pid.trim().into()))) {
        Some(counted) => Ok(counted),
        None => fail!("the counter is {text:?}"),
    }
}

fn goes_on(harness: &dyn Harness) -> Outcome {
    let sandbox = started(harness)?;
    sandbox.sh("echo kept > \"$HOME/kept\"")?;
    start_counting(&sandbox)?;
    let guest = sandbox.runtime().guest_boot(sandbox.name())?;
    check!(guest.is_some(), "a running guest has no boot");
    for round in 1..=2 {
        let before = sandbox.runtime().boot_id(sandbox.name())?;
        fall_asleep(&sandbox)?;
        let (count, process) = counted(&sandbox)?;
        std::thread::sleep(Duration::from_millis(200));
        check_eq!(counted(&sandbox)?.0, count, "the count while it sleeps");
        sandbox.runtime().start(sandbox.name())?;
        let after = sandbox.runtime().boot_id(sandbox.name())?;
        check!(after.is_some() && after != before, "round {round}: boot {before:?} became {after:?}");
        check_eq!(sandbox.runtime().guest_boot(sandbox.name())?, guest, "the guest's boot, round {round}");
        sandbox.wait_until("it counts on", || Ok(counted(&sandbox)?.0 > count))?;
        check_eq!(counted(&sandbox)?.1, process, "the process that counts, round {round}");
        check_eq!(sandbox.sh("cat \"$HOME/kept\"")?, "kept", "a file of the home");
    }
    check_eq!(sandbox.runtime().stop(sandbox.name(), GRACE)?, StopOutcome::Graceful, "a stop after all that");
    check!(!saved(&sandbox)?, "a stop saved memory");
    check_eq!(sandbox.runtime().guest_boot(sandbox.name())?, None, "the guest's boot at rest");
    sandbox.runtime().start(sandbox.name())?;
    let next = sandbox.runtime().guest_boot(sandbox.name())?;
    check!(next.is_some() && next != guest, "the guest's next boot is {next:?}, the first {guest:?}");
    Ok(())
}

fn is_stopped(harness: &dyn Harness) -> Outcome {
    let sandbox = started(harness)?;
    let (runtime, name) = (sandbox.runtime(), sandbox.name());
    check!(!saved(&sandbox)?, "there is saved memory while it runs");
    fall_asleep(&sandbox)?;
    sandbox.expect_status(&Status::Stopped, "while it sleeps")?;
    check!(saved(&sandbox)?, "there is no saved memory");
    check_eq!(runtime.boot_id(name)?, None, "boot while it sleeps");
    check_error!(
        runtime.exec(name, &ExecSpec::new(["true"])),
        RuntimeError::WrongStatus { status: Status::Stopped, .. },
        "exec"
    );
    check_eq!(runtime.stop(name, GRACE)?, StopOutcome::AlreadyAtRest, "stop while it sleeps");
    check_eq!(runtime.sleep(name, None, GRACE)?.outcome, StopOutcome::AlreadyAtRest, "a second sleep");
    check!(saved(&sandbox)?, "neither drops the memory");
    runtime.start(name)?;
    check!(!saved(&sandbox)?, "the memory is used once");
    fall_asleep(&sandbox)?;
    runtime.remove(name)?;
    check!(runtime.inspect(name)?.is_none(), "it is there after its removal");
    Ok(())
}

fn sees_the_host(harness: &dyn Harness) -> Outcome {
    let sandbox = started(harness)?;
    sandbox.sh("echo guest > old; mkdir folder; echo guest > folder/gone; cat old folder/gone")?;
    fall_asleep(&sandbox)?;
    std::fs::write(sandbox.host("old"), "of the host")?;
    std::fs::write(sandbox.host("folder/new"), "new")?;
    std::fs::remove_file(sandbox.host("folder/gone"))?;
    std::thread::sleep(Duration::from_millis(1100));
    sandbox.runtime().start(sandbox.name())?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let guest: u64 = sandbox.sh("date +%s")?.parse().unwrap_or_default();
    check!(guest.abs_diff(now.as_secs()) <= 1, "the guest's clock shows {guest}, the host's {now:?}");
    // The guest may believe for a second in what it knew.
    sandbox.wait_until("the host's edit is seen", || Ok(sandbox.sh("cat old")? == "of the host"))?;
    sandbox.wait_until("the new file is seen", || {
        Ok(sandbox.sh("cat folder/new 2>/dev/null || true")? == "new")
    })?;
    sandbox.wait_until("the removed file is gone", || Ok(sandbox.sh("ls folder")? == "new"))
}

fn forgotten(harness: &dyn Harness) -> Outcome {
    let sandbox = started(harness)?;
    let (runtime, name) = (sandbox.runtime(), sandbox.name());
    check_eq!(runtime.forget_memory(name)?, None, "memory of one that runs");
    sandbox.sh("echo kept > \"$HOME/kept\"; echo kept > kept")?;
    start_counting(&sandbox)?;
    fall_asleep(&sandbox)?;
    let fell_asleep = updated(&sandbox)?;
    check_eq!(runtime.forget_memory_before(name, fell_asleep)?, None, "memory that is newer");
    check!(saved(&sandbox)?, "newer memory was dropped");
    check!(runtime.forget_memory_before(name, fell_asleep + 1)?.is_some(), "nothing was forgotten");
    check_eq!(runtime.forget_memory(name)?, None, "memory to forget a second time");
    check_is_booted_anew(&sandbox)
}

fn updated(sandbox: &Sandbox<'_>) -> Outcome<i64> {
    match sandbox.runtime().inspect(sandbox.name())? {
        Some(info) => Ok(info.updated),
        None => fail!("{} is gone", sandbox.name()),
    }
}

fn update_drops(harness: &dyn Harness) -> Outcome {
    let mut sandbox = started(harness)?;
    sandbox.sh("echo kept > \"$HOME/kept\"; echo kept > kept")?;
    start_counting(&sandbox)?;
    fall_asleep(&sandbox)?;
    sandbox.spec.env.insert("NEW".into(), "value".into());
    sandbox.runtime().update(&sandbox.spec)?;
    check_is_booted_anew(&sandbox)?;
    check_eq!(sandbox.sh("echo $NEW")?, "value", "the new variable");
    Ok(())
}

/// No memory came back, and no file is lost.
fn check_is_booted_anew(sandbox: &Sandbox<'_>) -> Outcome {
    check!(!saved(sandbox)?, "there still is saved memory");
    sandbox.runtime().start(sandbox.name())?;
    let count = counted(sandbox)?.0;
    std::thread::sleep(Duration::from_millis(300));
    check_eq!(counted(sandbox)?.0, count, "the count of a program that ended with the memory");
    check_eq!(sandbox.sh("cat \"$HOME/kept\" kept")?, "kept\nkept", "files of home and workspace");
    Ok(())
}

fn sleep_of_another_boot(harness: &dyn Harness) -> Outcome {
    let sandbox = started(harness)?;
    let (runtime, name) = (sandbox.runtime(), sandbox.name());
    let slept = runtime.sleep(name, Some("another boot"), GRACE)?;
    check_eq!(slept.outcome, StopOutcome::AlreadyAtRest, "a sleep of another boot");
    sandbox.expect_status(&Status::Running, "after it")?;
    let boot = runtime.boot_id(name)?;
    let slept = runtime.sleep(name, boot.as_deref(), GRACE)?;
    check_eq!(slept.outcome, StopOutcome::Asleep, "a sleep of this boot");
    Ok(())
}

fn may_not(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    let slept = sandbox.runtime().sleep(sandbox.name(), None, GRACE)?;
    check_eq!(slept.outcome, StopOutcome::Graceful, "a sleep that is not allowed");
    check!(slept.why_not.is_some(), "no reason is given");
    check!(!saved(&sandbox)?, "memory was saved");
    Ok(())
}

fn ends_attended(harness: &dyn Harness) -> Outcome {
    let sandbox = started(harness)?;
    let mut command = sandbox.live(&ExecSpec::new(["sh", "-c", "echo ready; exec sleep 1000"]))?;
    command.expect("ready")?;
    fall_asleep(&sandbox)?;
    match command.end()? {
        Err(error) if is_lost(&error) => {}
        other => fail!("a command in a sandbox that fell asleep ended with {other:?}"),
    }
    sandbox.runtime().start(sandbox.name())?;
    check_eq!(sandbox.sh("echo up")?, "up", "a command after that");
    Ok(())
}

fn added_ports(harness: &dyn Harness) -> Outcome {
    let sandbox = started(harness)?;
    let (runtime, name) = (sandbox.runtime(), sandbox.name().clone());
    // Both are held until there are two, so that they differ.
    let free = [0_u16; 2].map(|port| std::net::TcpListener::bind(("127.0.0.1", port)));
    let [added, other] = free.map(|listener| -> Outcome<PortForward> {
        let host = listener?.local_addr()?.port();
        Ok(PortForward { bind: None, host, guest: 80 })
    });
    let (added, other) = (added?, other?);
    let known = |when: &str, all: &[PortForward], of_them: &[PortForward]| -> Outcome {
        let Some(info) = runtime.inspect(&name)? else { fail!("{name} is gone {when}") };
        check_eq!(info.spec.ports, all, "its ports {when}");
        check_eq!(info.added_ports, of_them, "those that were added, {when}");
        Ok(())
    };
    runtime.add_ports(&name, &[added])?;
    runtime.change_ports(&name, &[other], &[])?;
    runtime.add_ports(&name, &[added])?;
    known("while it runs", &[added, other], &[added])?;
    fall_asleep(&sandbox)?;
    known("while it sleeps", &[added, other], &[added])?;
    runtime.start(&name)?;
    known("after it woke", &[added, other], &[added])?;
    runtime.change_ports(&name, &[], &[added])?;
    known("once one is closed", &[other], &[])?;
    runtime.add_ports(&name, &[added])?;
    runtime.stop(&name, GRACE)?;
    runtime.update(&sandbox.spec)?;
    known("after an update", &[], &[])
}
