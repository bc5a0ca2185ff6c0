use std::time::Duration;

use sandbox_model::{ExecSpec, ExitStatus, Status};

use super::check::{check, check_eq, check_error, fail};
use super::sandbox::{Sandbox, is_lost};
use super::{Case, Harness, Outcome, Power};
use crate::{RuntimeError, StopOutcome};

pub(super) const CASES: &[Case] = &[
    Case::core("start_stop_and_their_repetition", start_stop),
    Case::core("start_by_two_at_once", start_by_two),
    Case::core("exec_during_the_boot_waits", exec_during_boot),
    Case::core("kill", kill),
    Case::core("stop_ends_running_commands", stop_ends_commands),
    Case::core("remove_of_a_running_sandbox_is_refused", remove_running),
    Case::core("boot_id_names_the_boot", boot_id),
    Case::core("a_stop_meant_for_another_boot_changes_nothing", stop_of_another_boot),
    Case::core("a_dead_machine_is_crashed_and_starts_again", crash),
    Case::core("logs_exist", logs),
    Case::core("at_rest_nothing_runs", at_rest),
    Case::with(Power::LiveResources, "modify_while_running", modify),
];

const GRACE: Duration = Duration::from_secs(10);

fn start_stop(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::created(harness)?;
    check_eq!(
        sandbox.runtime().stop(sandbox.name(), GRACE)?,
        StopOutcome::AlreadyAtRest,
        "stop before start"
    );
    for round in 1..=2 {
        sandbox.runtime().start(sandbox.name())?;
        sandbox.expect_status(&Status::Running, "after start")?;
        let boot = sandbox.runtime().boot_id(sandbox.name())?;
        sandbox.runtime().start(sandbox.name())?;
        check_eq!(
            sandbox.runtime().boot_id(sandbox.name())?,
            boot,
            "boot after a second start, round {round}"
        );
        check_eq!(sandbox.runtime().stop(sandbox.name(), GRACE)?, StopOutcome::Graceful, "first stop");
        sandbox.expect_status(&Status::Stopped, "after stop")?;
        check_eq!(sandbox.runtime().stop(sandbox.name(), GRACE)?, StopOutcome::AlreadyAtRest, "second stop");
    }
    Ok(())
}

fn stop_of_another_boot(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    let (runtime, name) = (sandbox.runtime(), sandbox.name());
    let Some(first) = runtime.boot_id(name)? else { fail!("a running sandbox has no boot id") };
    runtime.stop(name, GRACE)?;
    check_eq!(
        runtime.stop_boot(name, &first, GRACE)?,
        StopOutcome::AlreadyAtRest,
        "stop of a boot that is over"
    );
    runtime.start(name)?;
    check_eq!(runtime.stop_boot(name, &first, GRACE)?, StopOutcome::AlreadyAtRest, "stop of the boot before");
    sandbox.expect_status(&Status::Running, "after a stop that was meant for another boot")?;
    let Some(second) = runtime.boot_id(name)? else { fail!("a running sandbox has no boot id") };
    check_eq!(runtime.stop_boot(name, &second, GRACE)?, StopOutcome::Graceful, "stop of this boot");
    sandbox.expect_status(&Status::Stopped, "after the stop of this boot")
}

fn start_by_two(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::created(harness)?;
    let start = || -> Outcome<_> {
        sandbox.runtime().start(sandbox.name())?;
        Ok((sandbox.runtime().boot_id(sandbox.name())?, sandbox.sh("echo up")?))
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(start);
        (start(), other.join())
    });
    let Ok(second) = second else { fail!("a thread panicked") };
    let (first, second) = (first?, second?);
    check!(first.0.is_some(), "there is no boot id");
    check_eq!(first, second, "boot seen by the two");
    Ok(())
}

fn exec_during_boot(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::created(harness)?;
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| sandbox.runtime().start(sandbox.name()));
        sandbox.wait_until("it is starting", || {
            let status = sandbox.status()?;
            check!(
                matches!(status, Status::Created | Status::Starting | Status::Running),
                "{status} while it boots"
            );
            Ok(status != Status::Created)
        })?;
        check_eq!(sandbox.sh("echo up")?, "up", "a command during the boot");
        match starter.join() {
            Ok(result) => Ok(result?),
            Err(_) => fail!("a thread panicked"),
        }
    })
}

fn kill(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::created(harness)?;
    sandbox.runtime().kill(sandbox.name())?;
    sandbox.runtime().start(sandbox.name())?;
    for _ in 0..2 {
        sandbox.runtime().kill(sandbox.name())?;
        let status = sandbox.status()?;
        check!(status.is_at_rest(), "{status} after kill");
    }
    sandbox.runtime().start(sandbox.name())?;
    check_eq!(sandbox.sh("echo up")?, "up", "a command after kill and start");
    Ok(())
}

fn stop_ends_commands(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    let mut command = sandbox.live(&ExecSpec::new(["sh", "-c", "echo ready; exec sleep 1000"]))?;
    command.expect("ready")?;
    sandbox.runtime().stop(sandbox.name(), GRACE)?;
    match command.end()? {
        Ok(ExitStatus::Signal(_)) => Ok(()),
        Err(error) if is_lost(&error) => Ok(()),
        other => fail!("a command in a sandbox that stops ended with {other:?}"),
    }
}

fn remove_running(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    check_error!(
        sandbox.runtime().remove(sandbox.name()),
        RuntimeError::WrongStatus { status: Status::Running, .. },
        "remove"
    );
    check_eq!(sandbox.sh("echo up")?, "up", "a command after the refusal");
    Ok(())
}

fn boot_id(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::created(harness)?;
    let ask = || sandbox.runtime().boot_id(sandbox.name());
    check_eq!(ask()?, None, "before the first start");
    sandbox.runtime().start(sandbox.name())?;
    let first = ask()?;
    check!(first.is_some(), "there is none while it runs");
    check_eq!(ask()?, first, "asked again");
    sandbox.runtime().stop(sandbox.name(), GRACE)?;
    check_eq!(ask()?, None, "after stop");
    sandbox.runtime().start(sandbox.name())?;
    let second = ask()?;
    check!(second.is_some() && second != first, "the second boot is {second:?}, the first {first:?}");
    Ok(())
}

fn crash(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    sandbox.sh("echo kept > \"$HOME/kept\"; sync")?;
    let mut command = sandbox.live(&ExecSpec::new(["sh", "-c", "echo ready; exec sleep 1000"]))?;
    command.expect("ready")?;
    harness.pull_plug(sandbox.name())?;
    match command.end()? {
        Err(error) if is_lost(&error) => {}
        other => fail!("a command in a sandbox that crashed ended with {other:?}"),
    }
    sandbox.wait_until("it is crashed", || Ok(sandbox.status()? == Status::Crashed))?;
    check_error!(
        sandbox.runtime().exec(sandbox.name(), &ExecSpec::new(["true"])),
        RuntimeError::WrongStatus { status: Status::Crashed, .. },
        "exec in a crashed sandbox"
    );
    check_eq!(
        sandbox.runtime().stop(sandbox.name(), GRACE)?,
        StopOutcome::AlreadyAtRest,
        "stop of a crashed one"
    );
    sandbox.runtime().start(sandbox.name())?;
    sandbox.expect_status(&Status::Running, "after the crash and a start")?;
    check_eq!(sandbox.sh("cat \"$HOME/kept\"")?, "kept", "what was synced before the crash");
    Ok(())
}

fn logs(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    sandbox.runtime().stop(sandbox.name(), GRACE)?;
    let logs = sandbox.runtime().logs(sandbox.name())?;
    check!(logs.iter().any(|log| log.name == "console"), "no console log: {logs:?}");
    for log in &logs {
        check!(log.path.is_file(), "{} is not there", log.path.display());
    }
    let sizes =
        logs.iter().map(|log| Ok(std::fs::metadata(&log.path)?.len())).collect::<Outcome<Vec<_>>>()?;
    check!(sizes.iter().sum::<u64>() > 0, "all logs are empty");
    check!(sandbox.runtime().disk_usage(sandbox.name())?.bytes() > 0, "nothing on disk");
    Ok(())
}

fn at_rest(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    drop(sandbox.runtime().hold(sandbox.name())?);
    sandbox.runtime().stop(sandbox.name(), GRACE)?;
    let (runtime, name) = (sandbox.runtime(), sandbox.name());
    check_error!(
        runtime.exec(name, &ExecSpec::new(["true"])),
        RuntimeError::WrongStatus { status: Status::Stopped, .. },
        "exec"
    );
    check_error!(runtime.hold(name), RuntimeError::WrongStatus { .. }, "hold");
    if runtime.capabilities().dial {
        check_error!(runtime.dial(name, 1), RuntimeError::WrongStatus { .. }, "dial");
    } else {
        check_error!(runtime.dial(name, 1), RuntimeError::Unsupported(_), "dial without the power");
    }
    if !runtime.capabilities().live_resources {
        runtime.start(name)?;
        check_error!(
            runtime.modify(name, sandbox.spec.resources),
            RuntimeError::Unsupported(_),
            "modify without the power"
        );
    }
    sandbox.expect_status(
        &if runtime.capabilities().live_resources { Status::Stopped } else { Status::Running },
        "at the end",
    )
}

fn modify(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    let mut resources = sandbox.spec.resources;
    resources.cpus += 1;
    sandbox.runtime().modify(sandbox.name(), resources)?;
    let info = sandbox.runtime().inspect(sandbox.name())?;
    check_eq!(info.map(|info| info.spec.resources), Some(resources), "resources");
    if sandbox.runtime().capabilities().guest_root {
        check_eq!(sandbox.sh("nproc")?, resources.cpus.to_string(), "processors in the guest");
    }
    sandbox.runtime().stop(sandbox.name(), GRACE)?;
    check_error!(
        sandbox.runtime().modify(sandbox.name(), resources),
        RuntimeError::WrongStatus { .. },
        "modify of a stopped sandbox"
    );
    Ok(())
}
