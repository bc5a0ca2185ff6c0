//! Calls that hang: each ends at its deadline with all that it started, is told by its name, and the next one that
//! does not hang works.

use std::time::{Duration, Instant};

use sandbox_model::{ExecSpec, Resources, SandboxSpec, Status};
use sandbox_runtime::{Runtime, RuntimeError, StopOutcome};
use sandbox_runtime_microsandbox::Patience;

use crate::fixture::{Fixture, Machine, PATIENCE, name};

/// What `msb` was asked when it did not answer.
#[track_caller]
fn unanswered<T: std::fmt::Debug>(outcome: Result<T, RuntimeError>) -> String {
    match outcome {
        Err(RuntimeError::NoAnswer { call, seconds }) => {
            assert_eq!(seconds, PATIENCE.as_secs());
            call
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn boot_problem(fixture: &Fixture) -> String {
    match fixture.runtime.start(&name()) {
        Err(RuntimeError::BootFailed { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

fn exec(fixture: &Fixture) -> Result<(), RuntimeError> {
    fixture.runtime.exec(&name(), &ExecSpec::new(["true"])).map(drop)
}

#[test]
fn a_load_that_hangs_leaves_nothing_and_the_next_one_loads() {
    let fixture = Fixture::impatient();
    for (verb, call) in [("load", "msb load"), ("image", "msb image")] {
        fixture.hang(&[verb]);
        assert_eq!(unanswered(fixture.load()), call);
        assert!(matches!(fixture.runtime.create(&fixture.spec()), Err(RuntimeError::NoSuchContent(_))));
    }
    assert_eq!(fixture.hung(), 2);
    // An archive that nobody reads is as large as it likes.
    fixture.hang(&["load"]);
    let SandboxSpec { image, image_digest, .. } = fixture.spec();
    let mut endless = std::io::repeat(b'x');
    let error = fixture.runtime.load_image(&image, &image_digest, &mut endless, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("does not read"), "{error}");
    assert_eq!(fixture.hung(), 3);
    fixture.hang(&[]);
    fixture.created();
}

#[test]
fn a_boot_that_hangs_is_crashed_and_the_next_start_boots() {
    let fixture = Fixture::impatient();
    fixture.created();
    for (verb, listed) in [("create", None), ("start", Some("Stopped"))] {
        if let Some(status) = listed {
            fixture.listed(status);
        }
        fixture.hang(&[verb]);
        let problem =
            format!("`msb {verb}` did not answer within {} seconds and was ended", PATIENCE.as_secs());
        assert_eq!(boot_problem(&fixture), problem);
        assert_eq!(fixture.status(), (Status::Crashed, Some(problem)));
        assert_eq!(fixture.calls("stop"), usize::from(listed.is_some()) + 1, "half a machine is powered off");
        fixture.hang(&[]);
        fixture.runtime.start(&name()).unwrap();
        fixture.listed("Running");
        assert_eq!(fixture.status().0, Status::Running);
    }
    assert_eq!(fixture.hung(), 2);
}

/// Nothing of it is left, though `msb` says no word any more.
#[test]
fn a_boot_that_hangs_with_its_power_off_leaves_no_machine() {
    let fixture = Fixture::impatient();
    fixture.created();
    let mut machine = Machine::new(&fixture);
    fixture.hang(&["create", "stop", "list"]);
    assert!(boot_problem(&fixture).contains("`msb create` did not answer"));
    assert!(!machine.lives());
    // Of one that was started before it is asked before anything is begun.
    let mut machine = Machine::new(&fixture);
    assert_eq!(unanswered(fixture.runtime.start(&name())), "msb list");
    assert!(machine.lives());
    assert_eq!(fixture.hung(), 3);
}

#[test]
fn a_stop_that_hangs_ends_the_machine_itself() {
    let fixture = Fixture::impatient();
    fixture.created();
    for power_off in [false, true] {
        let mut machine = Machine::new(&fixture);
        fixture.runtime.start(&name()).unwrap();
        assert_eq!(fixture.status().0, Status::Running);
        fixture.hang(&["stop", "list"]);
        if power_off {
            fixture.runtime.kill(&name()).unwrap();
        } else {
            let outcome = fixture.runtime.stop(&name(), PATIENCE).unwrap();
            assert_eq!(outcome, StopOutcome::Forced);
        }
        assert!(!machine.lives());
        // That is known without a word of msb, which has none.
        assert_eq!(fixture.status(), (Status::Stopped, None));
        fixture.hang(&[]);
        fixture.listed("Crashed");
    }
    assert_eq!(fixture.hung(), 3);
    fixture.runtime.start(&name()).unwrap();
}

/// While a start or a stop hangs, nothing is noted of the machine.
#[test]
fn a_kill_goes_on_where_nobody_says_what_runs() {
    let fixture = Fixture::impatient();
    fixture.created();
    let note = fixture.msb.join("records/sandboxes").join(name()).join("machine.pid");
    let mut machine = Machine::new(&fixture);
    fixture.runtime.start(&name()).unwrap();
    std::fs::remove_file(&note).unwrap();
    fixture.hang(&["stop", "list"]);
    fixture.runtime.kill(&name()).unwrap();
    assert!(!machine.lives());
    assert_eq!(fixture.status(), (Status::Stopped, None));
    assert_eq!(fixture.calls("list"), 0, "who sees the machine need not ask");
    // Where none is seen, msb alone can have ended it, and says so.
    std::fs::remove_file(&note).unwrap();
    assert_eq!(unanswered(fixture.runtime.kill(&name())), "msb stop");
    fixture.hang(&["list"]);
    fixture.runtime.kill(&name()).unwrap();
    assert_eq!(fixture.status(), (Status::Stopped, None));
    assert_eq!(fixture.hung(), 4);
}

#[test]
fn a_stop_that_hangs_is_told_where_no_machine_is_seen() {
    let fixture = Fixture::impatient();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Running");
    fixture.hang(&["stop"]);
    assert_eq!(unanswered(fixture.runtime.stop(&name(), PATIENCE)), "msb stop");
    assert_eq!(unanswered(fixture.runtime.kill(&name())), "msb stop");
    assert_eq!(fixture.hung(), 3);
    assert_eq!(fixture.status().0, Status::Running);
    fixture.hang(&[]);
    assert_eq!(fixture.runtime.stop(&name(), PATIENCE).unwrap(), StopOutcome::Graceful);
    assert_eq!(fixture.status().0, Status::Stopped);
}

#[test]
fn other_calls_that_hang_are_told_and_change_nothing() {
    let fixture = Fixture::impatient();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Running");
    let resources = Resources { cpus: 1, ..fixture.spec().resources };
    fixture.hang(&["modify"]);
    assert_eq!(unanswered(fixture.runtime.modify(&name(), resources)), "msb modify");
    fixture.hang(&["exec"]);
    assert_eq!(unanswered(exec(&fixture)), "msb exec");
    assert_eq!(unanswered(fixture.runtime.dial(&name(), 1).map(drop)), "msb exec");
    assert_eq!(fixture.hung(), 3);
    fixture.hang(&[]);
    fixture.runtime.modify(&name(), resources).unwrap();
    fixture.runtime.stop(&name(), PATIENCE).unwrap();
    fixture.listed("Stopped");
    fixture.hang(&["remove"]);
    assert_eq!(unanswered(fixture.runtime.remove(&name())), "msb remove");
    assert!(fixture.runtime.has(&name()).unwrap());
    assert_eq!(fixture.hung(), 4);
    fixture.hang(&[]);
    fixture.runtime.remove(&name()).unwrap();
    assert!(!fixture.runtime.has(&name()).unwrap());
}

/// A question with a shorter deadline of its own says nothing of the others' link, and who waits for a program of the
/// guest has none.
#[test]
fn the_link_ends_for_what_must_be_answered_alone() {
    let work = Duration::from_secs(7);
    let fixture = Fixture::with(Patience { ask: PATIENCE, work, load: PATIENCE });
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture.listed("Running");
    fixture.hang(&["exec"]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| fixture.runtime.accept_ssh_agent(&name()).map(drop));
        let begin = Instant::now();
        let late = fixture.runtime.sessions(&name());
        assert!(matches!(late, Err(RuntimeError::Io(_))) && begin.elapsed() < work, "{late:?}");
        let outcome = exec(&fixture);
        assert!(matches!(outcome, Err(RuntimeError::NoAnswer { seconds: 7, .. })), "{outcome:?}");
        assert!(waiting.join().unwrap().is_err());
    });
    assert_eq!(fixture.calls("exec"), 1, "it was one link");
    assert_eq!(fixture.hung(), 1);
}

#[test]
fn a_list_tells_what_is_seen_and_of_the_rest_that_nobody_knows() {
    let fixture = Fixture::impatient();
    fixture.load().unwrap();
    let named = |last: &str| format!("shop-4chyvv5c1qh507-{last}").parse().unwrap();
    for last in ["created", "running", "stopped", "unclear", "unclear-too"] {
        fixture.runtime.create(&SandboxSpec { name: named(last), ..fixture.spec() }).unwrap();
    }
    fixture.machines();
    for last in ["stopped", "running"] {
        fixture.runtime.start(&named(last)).unwrap();
        if last == "stopped" {
            fixture.runtime.stop(&named(last), PATIENCE).unwrap();
        }
    }
    std::fs::remove_file(fixture.msb.join("machines")).unwrap();
    for last in ["unclear", "unclear-too"] {
        fixture.runtime.start(&named(last)).unwrap();
    }
    fixture.hang(&["list"]);
    let before = fixture.calls("list");
    let listed = fixture.runtime.list().unwrap().sandboxes;
    assert_eq!(fixture.calls("list"), before + 1, "it is asked once for all");
    let unknown = Status::Unknown("unknown".into());
    let statuses: Vec<_> = listed.iter().map(|info| info.status.clone()).collect();
    assert_eq!(statuses, [Status::Created, Status::Running, Status::Stopped, unknown.clone(), unknown]);
    let problems: Vec<_> = listed.into_iter().filter_map(|info| info.problem).collect();
    assert_eq!(problems.len(), 2);
    assert!(problems.iter().all(|problem| problem.contains("`msb list` did not answer")), "{problems:?}");
    assert_eq!(unanswered(fixture.runtime.inspect(&named("unclear"))), "msb list");
    assert_eq!(fixture.hung(), 2);
}

/// Small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's generator; its upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Whatever hangs whenever: no call takes longer than its deadlines, nothing is left of it, and the sandbox starts
/// once `msb` answers again.
#[test]
fn whatever_hangs_at_random_the_sandbox_starts_afterwards() {
    let fixture = Fixture::impatient();
    fixture.created();
    fixture.machines();
    let mut dice = Dice(7);
    for round in 0..4 {
        let hangs: Vec<&str> =
            ["create", "start", "stop", "list", "exec"].into_iter().filter(|_| dice.roll(2) == 0).collect();
        fixture.hang(&hangs);
        for _ in 0..2 {
            let (deed, begin) = (dice.roll(4), Instant::now());
            let outcome = match deed {
                0 => fixture.runtime.start(&name()),
                1 => fixture.runtime.stop(&name(), PATIENCE).map(drop),
                2 => fixture.runtime.kill(&name()),
                _ => exec(&fixture),
            };
            // A stop that hangs, with its grace, and a power-off that does, are the longest.
            assert!(begin.elapsed() < 8 * PATIENCE, "{round}: {hangs:?} {deed}: {outcome:?}");
        }
        fixture.hung();
        fixture.hang(&[]);
        fixture.runtime.start(&name()).unwrap_or_else(|error| panic!("{round}: {hangs:?}: {error}"));
        assert_eq!(fixture.status(), (Status::Running, None), "{round}: {hangs:?}");
        fixture.runtime.stop(&name(), PATIENCE).unwrap();
        assert_eq!(fixture.status(), (Status::Stopped, None), "{round}: {hangs:?}");
    }
}
