//! Two versions of the program on one home.

use std::fs;
use std::time::Duration;

use sandbox_model::Status;
use sandbox_runtime::{Runtime, RuntimeError};

use crate::fixture::{Fixture, name};

#[test]
fn two_programs_that_start_it_at_once_boot_it_once_and_see_the_same() {
    let fixture = Fixture::new();
    fixture.created();
    fixture.machines();
    let another = fixture.another(b"another");
    std::thread::scope(|scope| {
        let starts = [&fixture.runtime, &another].map(|program| scope.spawn(move || program.start(&name())));
        for start in starts {
            start.join().unwrap().unwrap();
        }
    });
    assert_eq!(fixture.calls("create"), 1);
    let status = |program: &dyn Runtime| program.inspect(&name()).unwrap().unwrap().status;
    assert_eq!([status(&fixture.runtime), status(&another)], [Status::Running, Status::Running]);
    another.stop(&name(), Duration::from_secs(1)).unwrap();
    assert_eq!([status(&fixture.runtime), status(&another)], [Status::Stopped, Status::Stopped]);
    // Each finds its own guest program in whatever the other boots.
    for (program, content) in [(&fixture.runtime, "none"), (&another, "another")] {
        program.start(&name()).unwrap();
        program.stop(&name(), Duration::from_secs(1)).unwrap();
        let all = fs::read_dir(fixture.msb.join("records/guest")).unwrap();
        let contents = all.map(|dir| fs::read_to_string(dir.unwrap().path().join("sandbox-guest")).unwrap());
        assert!(contents.into_iter().any(|found| found == content), "{content}");
    }
}

#[test]
fn a_record_of_a_newer_version_is_one_broken_row_and_stays_as_it_is() {
    let fixture = Fixture::new();
    fixture.created();
    let path = fixture.msb.join("records/sandboxes").join(name()).join("sandbox.json");
    let mut record: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    record["version"] = 99.into();
    fs::write(&path, record.to_string()).unwrap();
    let list = fixture.runtime.list().unwrap();
    assert!(list.sandboxes.is_empty() && list.broken[0].problem.contains("has version 99"), "{list:?}");
    for outcome in [
        fixture.runtime.start(&name()),
        fixture.runtime.stop(&name(), Duration::ZERO).map(drop),
        fixture.runtime.update(&fixture.spec()),
    ] {
        assert!(matches!(outcome, Err(RuntimeError::NewerRecord { version: 99, .. })), "{outcome:?}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), record.to_string());
}

/// What a version says of a machine that it has ended is asked of `msb` by one that does not know the word.
#[test]
fn a_note_that_this_version_does_not_know_is_no_note() {
    let fixture = Fixture::new();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Running");
    fixture.runtime.stop(&name(), Duration::ZERO).unwrap();
    fixture.listed("Crashed");
    let asked = fixture.calls("list");
    assert_eq!(fixture.status().0, Status::Stopped);
    assert_eq!(fixture.calls("list"), asked, "it was ended, and that is known");
    fs::write(fixture.msb.join("records/sandboxes").join(name()).join("machine.pid"), "resting").unwrap();
    assert_eq!(fixture.status().0, Status::Crashed);
    assert_eq!(fixture.calls("list"), asked + 1);
}
