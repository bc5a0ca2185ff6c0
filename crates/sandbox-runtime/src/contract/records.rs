use std::time::Duration;

use sandbox_model::{ByteSize, ExecSpec, Resources, Status};

use super::check::{check, check_eq, check_error, fail};
use super::sandbox::{Sandbox, unique_name};
use super::{Case, Harness, Outcome, Power};
use crate::RuntimeError;

pub(super) const CASES: &[Case] = &[
    Case::core("create_then_exists", create_then_exists),
    Case::core("create_needs_the_home_disk", create_needs_home),
    Case::core("create_by_many_at_once", create_by_many),
    Case::core("inspect_and_list_tell_the_spec", inspect_and_list),
    Case::core("unknown_names", unknown_names),
    Case::core("remove_twice", remove_twice),
    Case::core("update_at_rest", update_at_rest),
    Case::with(Power::BreakableRecords, "broken_record_is_one_row", broken_record),
];

fn create_then_exists(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::created(harness)?;
    sandbox.expect_status(&Status::Created, "after create")?;
    check_error!(sandbox.runtime().create(&sandbox.spec), RuntimeError::Exists(_), "a second create");
    sandbox.expect_status(&Status::Created, "after a second create")
}

fn create_needs_home(harness: &dyn Harness) -> Outcome {
    let other = Sandbox::created(harness)?;
    let mut sandbox = Sandbox::plan(harness)?;
    sandbox.spec.home.path = other.host("no-such-disk.ext4");
    check!(sandbox.runtime().create(&sandbox.spec).is_err(), "created without a home disk");
    check_eq!(sandbox.runtime().inspect(sandbox.name())?, None, "inspect after the failure");
    Ok(())
}

fn create_by_many(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::plan(harness)?;
    let other = Sandbox::created(harness)?;
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| sandbox.runtime().create(&sandbox.spec))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut made = 0;
    for result in results {
        match result {
            Ok(Ok(())) => made += 1,
            Ok(Err(RuntimeError::Exists(_))) => {}
            other => fail!("create beside others: {other:?}"),
        }
    }
    check_eq!(made, 1, "how many of eight made it");
    let listed = sandbox.runtime().list()?;
    for name in [sandbox.name(), other.name()] {
        let rows = listed.sandboxes.iter().filter(|info| info.spec.name == *name).count();
        check_eq!(rows, 1, "rows of {name}");
    }
    Ok(())
}

fn inspect_and_list(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::created(harness)?;
    let Some(info) = sandbox.runtime().inspect(sandbox.name())? else { fail!("inspect finds nothing") };
    check_eq!(info.spec, sandbox.spec, "spec");
    check!(info.created > 1_600_000_000 && info.updated >= info.created, "moments: {info:?}");
    let listed = sandbox.runtime().list()?;
    check_eq!(
        listed.sandboxes.iter().find(|row| row.spec.name == *sandbox.name()),
        Some(&info),
        "the row in the list"
    );
    Ok(())
}

fn unknown_names(harness: &dyn Harness) -> Outcome {
    let (runtime, name) = (harness.runtime(), unique_name()?);
    let unplanned = Sandbox::plan(harness)?;
    check_eq!(runtime.inspect(&name)?, None, "inspect");
    runtime.remove(&name)?;
    let grace = Duration::from_secs(1);
    check_error!(runtime.start(&name), RuntimeError::NoSuchSandbox(_), "start");
    check_error!(runtime.stop(&name, grace), RuntimeError::NoSuchSandbox(_), "stop");
    check_error!(runtime.kill(&name), RuntimeError::NoSuchSandbox(_), "kill");
    check_error!(runtime.exec(&name, &ExecSpec::new(["true"])), RuntimeError::NoSuchSandbox(_), "exec");
    check_error!(runtime.update(&unplanned.spec), RuntimeError::NoSuchSandbox(_), "update");
    check_error!(runtime.hold(&name), RuntimeError::NoSuchSandbox(_), "hold");
    check_error!(runtime.boot_id(&name), RuntimeError::NoSuchSandbox(_), "boot_id");
    check_error!(runtime.logs(&name), RuntimeError::NoSuchSandbox(_), "logs");
    check_error!(runtime.disk_usage(&name), RuntimeError::NoSuchSandbox(_), "disk_usage");
    Ok(())
}

fn remove_twice(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::created(harness)?;
    for _ in 0..2 {
        sandbox.runtime().remove(sandbox.name())?;
        check_eq!(sandbox.runtime().inspect(sandbox.name())?, None, "inspect after remove");
    }
    check!(sandbox.spec.home.path.exists(), "the home disk went with the sandbox");
    check!(sandbox.spec.workspace.source.exists(), "the workspace went with the sandbox");
    sandbox.create()?;
    sandbox.expect_status(&Status::Created, "after remove and create")
}

fn update_at_rest(harness: &dyn Harness) -> Outcome {
    let mut sandbox = Sandbox::created(harness)?;
    let memory = ByteSize::from_bytes(sandbox.spec.resources.memory.bytes() + (64 << 20));
    sandbox.spec.resources = Resources { cpus: 2, memory };
    sandbox.spec.labels.insert("more".into(), "yes".into());
    sandbox.spec.env.insert("LATER".into(), "yes".into());
    sandbox.runtime().update(&sandbox.spec)?;
    let info = sandbox.runtime().inspect(sandbox.name())?;
    check_eq!(info.map(|info| info.spec), Some(sandbox.spec.clone()), "spec after update");
    sandbox.runtime().start(sandbox.name())?;
    check_eq!(sandbox.sh("echo $LATER")?, "yes", "a variable of the new spec");
    check_error!(
        sandbox.runtime().update(&sandbox.spec),
        RuntimeError::WrongStatus { .. },
        "update of a running sandbox"
    );
    let mut other_disk = sandbox.spec.clone();
    other_disk.root_disk = ByteSize::gib(2);
    sandbox.runtime().stop(sandbox.name(), Duration::from_secs(10))?;
    check!(sandbox.runtime().update(&other_disk).is_err(), "the root disk's size was changed");
    Ok(())
}

fn broken_record(harness: &dyn Harness) -> Outcome {
    let (good, bad) = (Sandbox::created(harness)?, Sandbox::created(harness)?);
    harness.break_record(bad.name())?;
    let listed = harness.runtime().list()?;
    check!(listed.sandboxes.iter().any(|row| row.spec.name == *good.name()), "the good one is not listed");
    check!(!listed.sandboxes.iter().any(|row| row.spec.name == *bad.name()), "the broken one is listed");
    let rows: Vec<_> = listed.broken.iter().filter(|row| row.name == bad.name().as_str()).collect();
    check_eq!(rows.len(), 1, "broken rows");
    check!(!rows[0].problem.is_empty(), "a broken row without a problem");
    check_error!(harness.runtime().inspect(bad.name()), RuntimeError::BadRecord { .. }, "inspect");
    check_error!(harness.runtime().start(bad.name()), RuntimeError::BadRecord { .. }, "start");
    harness.runtime().remove(bad.name())?;
    let listed = harness.runtime().list()?;
    check!(!listed.broken.iter().any(|row| row.name == bad.name().as_str()), "it cannot be removed");
    Ok(())
}
