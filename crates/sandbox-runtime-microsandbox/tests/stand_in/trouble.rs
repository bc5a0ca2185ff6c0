//! Calls that fail and say why.

use std::fs;
use std::time::Duration;

use sandbox_model::{ByteSize, ExtraMount, Resources, SandboxSpec, SecretValues, Status};
use sandbox_runtime::{Runtime, RuntimeError};

use crate::fixture::{Fixture, Machine, name};

#[test]
fn a_failed_boot_is_crashed_with_its_log_and_the_next_start_tries_again() {
    let fixture = Fixture::new();
    fixture.created();
    fixture.fail("create", "error: failed to start\n  → sandbox process exited\n");
    let logs = fixture.msb.join("sandboxes").join(name()).join("logs");
    fs::create_dir_all(&logs).unwrap();
    fs::write(logs.join("kernel.log"), "Kernel panic - not syncing\n").unwrap();
    match fixture.runtime.start(&name()) {
        Err(RuntimeError::BootFailed { problem, log, .. }) => {
            assert_eq!(problem, "failed to start; sandbox process exited");
            assert!(log.contains("Kernel panic"), "{log}");
        }
        other => panic!("{other:?}"),
    }
    let (status, problem) = fixture.status();
    assert_eq!(status, Status::Crashed, "whatever msb calls it");
    assert!(problem.unwrap().contains("sandbox process exited"));

    fixture.mend("create");
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Running");
    assert_eq!(fixture.status(), (Status::Running, None));
}

#[test]
fn a_start_that_was_killed_is_crashed_and_starts_again() {
    let fixture = Fixture::new();
    fixture.created();
    let life = fixture.msb.join("records/sandboxes").join(name()).join("life.json");
    fs::write(&life, "\"starting\"").unwrap();
    let (status, problem) = fixture.status();
    assert_eq!((status, problem.as_deref()), (Status::Crashed, Some("its start was interrupted")));
    fixture.runtime.start(&name()).unwrap();
    assert_eq!(fs::read_to_string(&life).unwrap().trim(), "\"booted\"");
}

/// On a busy machine `msb` asks itself what it can, does not wait for the answer, and refuses.
#[test]
fn a_start_on_a_busy_machine_is_tried_again_and_any_other_failure_is_told() {
    let fixture = Fixture::new();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Stopped");
    fixture.fail_times("start", 2, "error: selected msb runtime does not support launch requests\n");
    fixture.runtime.start(&name()).unwrap();
    assert_eq!(fixture.calls("start"), 3);

    fixture.fail_times("start", 1, "error: cannot start sandbox: already running\n");
    match fixture.runtime.start(&name()) {
        Err(RuntimeError::BootFailed { problem, .. }) => assert!(problem.contains("already running")),
        other => panic!("{other:?}"),
    }
    fixture.fail("remove", "error: sandbox is in use\n");
    let error = fixture.runtime.remove(&name()).unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
}

#[test]
fn that_memory_is_not_saved_is_told_once_and_only_to_who_wants_it() {
    let fixture = Fixture::new();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    assert!(fixture.told.lock().unwrap().is_empty(), "it was to end anyway");

    fixture.listed("Stopped");
    fixture.runtime.update(&SandboxSpec { sleep: true, ..fixture.spec() }).unwrap();
    for _ in 0..2 {
        fixture.runtime.start(&name()).unwrap();
        let told = fixture.told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("without saving its memory"), "{told:?}");
    }
    assert_eq!(fixture.calls("create") + fixture.calls("start"), 3, "each was a start");
}

#[test]
fn a_machine_that_is_seen_to_live_needs_no_word_of_msb() {
    let fixture = Fixture::new();
    fixture.created();
    let machine = Machine::new(&fixture);
    fixture.runtime.start(&name()).unwrap();
    let asked = fixture.calls("list");
    assert_eq!(fixture.status(), (Status::Running, None));
    assert_eq!(fixture.calls("list"), asked);

    // It died, and what msb says counts again.
    drop(machine);
    fixture.listed("Crashed");
    assert_eq!(fixture.status().0, Status::Crashed);

    // A stop does not wait for the process to be gone.
    let _machine = Machine::new(&fixture);
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Stopped");
    assert_eq!(fixture.status().0, Status::Running);
    fixture.runtime.stop(&name(), Duration::ZERO).unwrap();
    assert_eq!(fixture.status().0, Status::Stopped);
}

#[test]
fn a_load_onto_a_full_disk_leaves_nothing_and_is_not_the_archives_fault() {
    let fixture = Fixture::new();
    fixture.fail("load", "error: io error: No space left on device (os error 28)\n");
    let error = fixture.load().unwrap_err();
    assert!(matches!(error, RuntimeError::Other { .. }), "{error:?}");
    assert!(error.to_string().contains("No space left"), "{error}");
    assert!(matches!(fixture.runtime.create(&fixture.spec()), Err(RuntimeError::NoSuchContent(_))));
    fixture.mend("load");
    fixture.created();

    let broken = Fixture::new();
    broken.fail("load", "error: unexpected end of archive\n");
    assert!(matches!(broken.load(), Err(RuntimeError::BadArchive(_))));
}

/// Whoever asks for what it cannot do is told, and gets nothing that looks like it.
#[test]
fn what_it_cannot_do_is_refused() {
    let fixture = Fixture::new();
    fixture.created();
    let file = fixture.dir.path().join("file");
    fs::write(&file, "").unwrap();
    let mount = |source| ExtraMount { target: "/one".into(), source, readonly: true };
    let with = |source| SandboxSpec { mounts: vec![mount(source)], ..fixture.spec() };
    let error = fixture.runtime.update(&with(file)).unwrap_err();
    assert!(matches!(error, RuntimeError::Unsupported(why) if why.contains("no single files")), "{error}");
    fixture.runtime.update(&with(fixture.dir.path().join("workspace"))).unwrap();

    assert!(!fixture.runtime.capabilities().sleep);
    // It has no outlet to give them to.
    let refused = fixture.runtime.change_secret_values(&name(), &[], &SecretValues::new());
    assert!(matches!(refused, Err(RuntimeError::Unsupported(_))), "{refused:?}");
}

/// Every command in a sandbox asks for what its settings say.
#[test]
fn what_a_machine_was_not_booted_for_is_not_asked_of_msb() {
    let fixture = Fixture::new();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Running");
    let had = fixture.spec().resources;
    let beyond = [
        Resources { cpus: 2, ..had },
        Resources { memory: ByteSize::from_bytes(4 * had.memory.bytes() + 1), ..had },
    ];
    for resources in beyond {
        let outcome = fixture.runtime.modify(&name(), resources);
        assert!(matches!(outcome, Err(RuntimeError::Unsupported(_))), "{resources:?}: {outcome:?}");
    }
    assert_eq!(fixture.calls("modify"), 0);
    let more = Resources { memory: ByteSize::from_bytes(2 * had.memory.bytes()), ..had };
    for resources in [more, beyond[0]] {
        fixture.runtime.modify(&name(), resources).unwrap();
    }
    assert_eq!(fixture.calls("modify"), 2, "what it may have now, msb alone knows");
}

#[test]
fn a_newer_database_is_told_and_touches_nothing() {
    let fixture = Fixture::new();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture.fail("list", "error: runtime error: database schema is newer than this msb binary\n");
    let listed = fixture.runtime.list().unwrap().sandboxes;
    assert_eq!(listed[0].status, Status::Unknown("unknown".into()));
    assert!(listed[0].problem.as_ref().unwrap().contains("newer version"), "{listed:?}");
    for outcome in [
        fixture.runtime.start(&name()),
        fixture.runtime.remove(&name()),
        fixture.runtime.stop(&name(), Duration::ZERO).map(drop),
    ] {
        assert!(matches!(outcome, Err(RuntimeError::NewerRecords { .. })), "{outcome:?}");
    }
    assert!(fixture.runtime.has(&name()).unwrap());
    let calls = fs::read_to_string(fixture.msb.join("calls")).unwrap();
    assert!(calls.lines().all(|call| call != "remove" && call != "stop"), "{calls}");
}
