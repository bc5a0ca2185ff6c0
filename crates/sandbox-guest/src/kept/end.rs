//! Ends everything on a terminal, as gently as that goes.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbox_model::SessionEnd;

/// How long a command may take to leave that is hung up, and how long everything on its terminal that is asked
/// to end.
const LEAVES_WITHIN: Duration = Duration::from_secs(3);
const ENDS_WITHIN: Duration = Duration::from_secs(3);
const DIES_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Ends a terminal's session by the number of its leader. `foreground` is the group that its keys would signal:
/// while that or the leader's own stays, the rest is not left alone. What the user sent to the background and
/// bade to outlive a hang-up does so otherwise. Gives what does not even die.
pub async fn end(session: Pid, foreground: Option<Pid>) -> Result<SessionEnd, Vec<Pid>> {
    let attended = |process: &Process| Some(process.group) == foreground || process.group == session;
    tell(Signal::SIGHUP, &members(session, attended));
    if all_leave(LEAVES_WITHIN, None, || members(session, attended)).await {
        return Ok(SessionEnd::HungUp);
    }
    tell(Signal::SIGTERM, &members(session, |_| true));
    if all_leave(ENDS_WITHIN, None, || members(session, |_| true)).await {
        return Ok(SessionEnd::Terminated);
    }
    // Again and again: one that is killed may just have begun another.
    if all_leave(DIES_WITHIN, Some(Signal::SIGKILL), || members(session, |_| true)).await {
        return Ok(SessionEnd::Killed);
    }
    Err(members(session, |_| true))
}

fn tell(signal: Signal, processes: &[Pid]) {
    for process in processes {
        // It may be gone already. A stopped one hears nothing until it continues.
        let _ = kill(*process, signal);
        let _ = kill(*process, Signal::SIGCONT);
    }
}

async fn all_leave(within: Duration, signal: Option<Signal>, left: impl Fn() -> Vec<Pid>) -> bool {
    let begun = Instant::now();
    loop {
        let left = left();
        if left.is_empty() {
            return true;
        }
        if begun.elapsed() > within {
            return false;
        }
        if let Some(signal) = signal {
            tell(signal, &left);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

struct Process {
    group: Pid,
    session: Pid,
}

/// The living processes of a session that `which` is true of.
fn members(session: Pid, which: impl Fn(&Process) -> bool) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that ends meanwhile has no file any more.
        let stat = fs_err::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if parse(&stat).is_some_and(|process| process.session == session && which(&process)) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
}

/// `None` for one that is dead and not yet reaped. Its name, in parentheses, may hold anything.
fn parse(stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let (_parent, group, session) =
        (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let process = Process { group: Pid::from_raw(group), session: Pid::from_raw(session) };
    (!matches!(state, "Z" | "X")).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_field() {
        let process = parse("7 (a) Z 1 2 3) S 1 12 34 0 -1").unwrap();
        assert_eq!((process.group.as_raw(), process.session.as_raw()), (12, 34));
        assert!(parse("7 (a) Z 1 12 34 0 -1").is_none());
    }

    #[test]
    fn this_process_is_found() {
        let me = Pid::this();
        let session = nix::unistd::getsid(None).unwrap();
        assert!(members(session, |_| true).contains(&me));
        assert!(members(session, |_| false).is_empty());
    }
}
