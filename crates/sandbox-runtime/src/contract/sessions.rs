//! Commands on a terminal that outlive their clients.

use std::time::Duration;

use sandbox_model::{ExecSpec, ExitStatus, Keep, KeptSession, SessionEnd, TermSize};

use super::check::{check, check_eq, check_error, fail};
use super::sandbox::{Live, Sandbox, text};
use super::{Case, Harness, Outcome, Power};
use crate::{ExecSession, RuntimeError, StopOutcome};

pub(super) const CASES: &[Case] = &[
    Case::with(Power::Sessions, "a_kept_command_goes_on_without_its_client", goes_on).borrowing(),
    Case::with(Power::Sessions, "a_kept_command_has_several_clients", several).borrowing(),
    Case::with(Power::Sessions, "an_end_that_nobody_saw_is_kept", unseen_end).borrowing(),
    Case::with(Power::Sessions, "a_kept_command_that_ignores_its_end_is_killed", stubborn).borrowing(),
    Case::with(Power::Sessions, "a_command_is_kept_on_a_terminal_only", only_terminals).borrowing(),
    Case::with(Power::SleepingSessions, "a_kept_command_sleeps_and_wakes", sleeps),
];

const SIZE: TermSize = TermSize { cols: 80, rows: 24 };
const COUNTER: &str = "n=0; while :; do n=$((n+1)); echo \"count $n.\"; sleep 0.1; done";

fn spec(script: &str) -> ExecSpec {
    ExecSpec {
        tty: Some(SIZE),
        keep: Some(Keep { kind: "shell".into(), key: "key".into(), title: "a case".into() }),
        ..ExecSpec::new(["sh", "-c", script])
    }
}

/// Starts one; its session and its number.
fn begin(sandbox: &Sandbox<'_>, script: &str) -> Outcome<(ExecSession, u32)> {
    let session = sandbox.runtime().exec(sandbox.name(), &spec(script))?;
    match session.session {
        Some(number) => Ok((session, number)),
        None => fail!("it is not kept"),
    }
}

fn find(sandbox: &Sandbox<'_>, number: u32) -> Outcome<Option<KeptSession>> {
    Ok(sandbox.runtime().sessions(sandbox.name())?.into_iter().find(|session| session.id == number))
}

fn attach(sandbox: &Sandbox<'_>, number: u32) -> Outcome<Live> {
    let session = sandbox.runtime().attach(sandbox.name(), number, SIZE)?;
    Ok(Live::new(session, sandbox.harness.patience()))
}

fn until_detached(sandbox: &Sandbox<'_>, number: u32) -> Outcome {
    sandbox.wait_until("its client is gone", || {
        Ok(find(sandbox, number)?.is_some_and(|session| session.is_detached()))
    })
}

fn goes_on(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let (session, number) = begin(&sandbox, COUNTER)?;
    drop(session);
    until_detached(&sandbox, number)?;
    let Some(found) = find(&sandbox, number)? else { fail!("it is gone") };
    check_eq!((found.keep.key.as_str(), found.keep.title.as_str()), ("key", "a case"), "what it is known by");
    check_eq!(
        (found.size, found.cwd.as_str(), found.user.as_str()),
        (SIZE, "/workspace", "dev"),
        "its facts"
    );
    std::thread::sleep(Duration::from_millis(500));
    let mut again = attach(&sandbox, number)?;
    again.expect("count 40.")?;
    for count in 1..=40 {
        let line = format!("count {count}.");
        check!(text(&again.stdout).contains(&line), "{line:?} is missing in {:?}", text(&again.stdout));
    }
    let end = sandbox.runtime().end_session(sandbox.name(), number)?;
    check_eq!(end, SessionEnd::HungUp, "how it was ended");
    check_eq!(again.end()??, ExitStatus::Signal(1), "the end of a command that is hung up");
    check_error!(
        sandbox.runtime().attach(sandbox.name(), number, SIZE),
        RuntimeError::NoSuchSession { .. },
        "a session that has ended"
    );
    Ok(())
}

fn several(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let (one, number) =
        begin(&sandbox, "stty -echo; echo ready; while read -r line; do echo \"<$line>\"; done")?;
    let mut one = Live::new(one, harness.patience());
    one.expect("ready")?;
    let mut two = attach(&sandbox, number)?;
    two.expect("ready")?;
    one.input.write(b"one\r")?;
    two.expect("<one>")?;
    two.input.write(b"two\r")?;
    one.expect("<two>")?;
    two.input.write(&[4])?;
    check_eq!(one.end()??, ExitStatus::SUCCESS, "the end of one");
    check_eq!(two.end()??, ExitStatus::SUCCESS, "the end of the other");
    check_eq!(find(&sandbox, number)?, None, "a session whose end was seen");
    Ok(())
}

fn unseen_end(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let (session, number) =
        begin(&sandbox, "echo ready; until [ -e go ]; do sleep 0.1; done; echo bye; exit 9")?;
    drop(session);
    until_detached(&sandbox, number)?;
    std::fs::write(sandbox.host("go"), "")?;
    sandbox.wait_until("it has ended", || {
        Ok(find(&sandbox, number)?.is_some_and(|session| session.ended == Some(ExitStatus::Code(9))))
    })?;
    let mut again = attach(&sandbox, number)?;
    check_eq!(again.end()??, ExitStatus::Code(9), "its end");
    check!(text(&again.stdout).contains("bye"), "its last words are not in {:?}", text(&again.stdout));
    check_eq!(find(&sandbox, number)?, None, "a session whose end was seen");
    Ok(())
}

/// The shell leaves when it is hung up, but the program in its foreground does not.
fn stubborn(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let script = "set -m; sh -c 'trap \"\" HUP TERM; echo ready; while :; do sleep 0.1; touch alive; done'";
    let (session, number) = begin(&sandbox, script)?;
    let mut session = Live::new(session, harness.patience());
    session.expect("ready")?;
    let end = sandbox.runtime().end_session(sandbox.name(), number)?;
    check_eq!(end, SessionEnd::Killed, "how it was ended");
    check!(session.end()?.is_ok(), "its client did not hear of its end");
    let alive = sandbox.host("alive");
    check!(alive.exists(), "the program did not run");
    std::fs::remove_file(&alive)?;
    std::thread::sleep(Duration::from_secs(1));
    check!(!alive.exists(), "the program in the foreground still runs");
    Ok(())
}

fn only_terminals(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let plain = ExecSpec { tty: None, ..spec("exit 3") };
    let session = sandbox.runtime().exec(sandbox.name(), &plain)?;
    check_eq!(session.session, None, "a command on pipes");
    check_eq!(session.collect()?.status, ExitStatus::Code(3), "its end");
    Ok(())
}

fn sleeps(harness: &dyn Harness) -> Outcome {
    let mut sandbox = Sandbox::plan(harness)?;
    sandbox.spec.sleep = true;
    sandbox.create()?;
    sandbox.runtime().start(sandbox.name())?;
    let (session, number) = begin(&sandbox, COUNTER)?;
    // Its client is there when the sandbox falls asleep.
    let mut client = Live::new(session, harness.patience());
    client.expect("count 3.")?;
    let slept = sandbox.runtime().sleep(sandbox.name(), None, Duration::from_secs(10))?;
    check_eq!(slept.outcome, StopOutcome::Asleep, "how it fell asleep");
    check!(client.end()?.is_err(), "its client ended as if the command had");
    sandbox.runtime().start(sandbox.name())?;
    until_detached(&sandbox, number)?;
    let mut again = attach(&sandbox, number)?;
    again.expect("count 25.")?;
    for count in 1..=25 {
        let line = format!("count {count}.");
        check!(text(&again.stdout).contains(&line), "{line:?} is missing in {:?}", text(&again.stdout));
    }
    Ok(())
}
