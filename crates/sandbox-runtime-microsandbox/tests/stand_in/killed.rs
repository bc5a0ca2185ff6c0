//! Calls that are killed at any moment: what they were about is told, and done by the next one.

use std::time::Duration;

use sandbox_model::{ExecSpec, Status};
use sandbox_runtime::{Runtime, RuntimeError};

use crate::fixture::{Fixture, name};

#[test]
fn a_load_that_is_killed_leaves_nothing_and_the_next_one_loads() {
    let fixture = Fixture::new();
    for verb in ["load", "image"] {
        fixture.kill(&[verb]);
        let error = fixture.load().unwrap_err().to_string();
        assert!(error.contains(&format!("msb {verb}")), "{error}");
        assert!(matches!(fixture.runtime.create(&fixture.spec()), Err(RuntimeError::NoSuchContent(_))));
    }
    fixture.kill(&[]);
    fixture.created();
}

#[test]
fn a_boot_that_is_killed_is_crashed_and_the_next_start_boots() {
    let fixture = Fixture::new();
    fixture.created();
    for (verb, listed) in [("create", None), ("start", Some("Stopped"))] {
        if let Some(status) = listed {
            fixture.listed(status);
        }
        fixture.kill(&[verb]);
        match fixture.runtime.start(&name()) {
            Err(RuntimeError::BootFailed { problem, .. }) => {
                assert_eq!(problem, format!("`msb {verb}` ended with a signal"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(fixture.status().0, Status::Crashed);
        fixture.kill(&[]);
        fixture.runtime.start(&name()).unwrap();
        fixture.listed("Running");
        assert_eq!(fixture.status(), (Status::Running, None));
    }
}

#[test]
fn what_else_is_killed_is_told_and_works_the_next_time() {
    let fixture = Fixture::new();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Running");
    let told = |outcome: Result<(), RuntimeError>, what: &str| {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    };
    fixture.kill(&["list"]);
    told(fixture.runtime.inspect(&name()).map(drop), "`msb list` ended with a signal");
    assert_eq!(fixture.runtime.list().unwrap().sandboxes[0].status, Status::Unknown("unknown".into()));
    fixture.kill(&["exec"]);
    assert!(fixture.runtime.exec(&name(), &ExecSpec::new(["true"])).is_err());
    // It is powered off instead; where that is killed too, it is told.
    fixture.kill(&["stop"]);
    told(fixture.runtime.stop(&name(), Duration::from_secs(1)).map(drop), "`msb stop` ended with a signal");
    fixture.kill(&[]);
    fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    fixture.kill(&["remove"]);
    fixture.listed("Stopped");
    told(fixture.runtime.remove(&name()), "`msb remove` ended with a signal");
    fixture.kill(&[]);
    fixture.runtime.remove(&name()).unwrap();
}
