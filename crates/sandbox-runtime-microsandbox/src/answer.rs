//! The guest's first answer on a stream. It has a deadline, as any call of `msb` has; what comes after it has none.
//! Shorter deadlines of what is begun are its own matter, and say nothing of the link.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use sandbox_runtime::RuntimeError;

use crate::call::no_answer;

/// What has no answer after this goes on waiting, but what comes after it had better take another way.
const LATE_AFTER: Duration = Duration::from_secs(10);

/// Begins something on a stream. `late` is called once if there is no answer for [`LATE_AFTER`], and `over`, if there is
/// none at the deadline; then the stream ends.
pub fn within<T>(
    stream: UnixStream,
    deadline: Duration,
    late: impl FnOnce() + Send + 'static,
    over: impl FnOnce() + Send + 'static,
    start: impl FnOnce(UnixStream) -> Result<T, RuntimeError>,
) -> Result<T, RuntimeError> {
    let socket = stream.try_clone()?;
    let (lives, answer) = channel::<()>();
    // Whoever is first has the last word.
    let decided = Arc::new(AtomicBool::new(false));
    let ours = Arc::clone(&decided);
    std::thread::spawn(move || {
        let silent = |limit| answer.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        let early = LATE_AFTER.min(deadline);
        if silent(early) {
            late();
            if silent(deadline.saturating_sub(early)) && !ours.swap(true, Ordering::AcqRel) {
                // First: this process may end with its caller.
                over();
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
    });
    let outcome = start(stream);
    drop(lives);
    if decided.swap(true, Ordering::AcqRel) {
        return Err(no_answer(&["exec".into()], deadline));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn tried(deadline: Duration, waits: bool) -> (Result<(), RuntimeError>, [usize; 2]) {
        let (stream, _guest) = UnixStream::pair().unwrap();
        let said = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let counted = [0, 1].map(|which| {
            let said = Arc::clone(&said);
            move || {
                said[which].fetch_add(1, Ordering::Relaxed);
            }
        });
        let [late, over] = counted;
        let outcome = within(stream, deadline, late, over, |mut stream| {
            if waits {
                assert_eq!(stream.read(&mut [0])?, 0, "nobody answers");
            }
            Ok(())
        });
        // One that was answered has no more to say.
        std::thread::sleep(deadline + Duration::from_millis(200));
        (outcome, [0, 1].map(|which| said[which].load(Ordering::Relaxed)))
    }

    #[test]
    fn what_is_answered_is_neither_late_nor_over() {
        let (outcome, said) = tried(Duration::from_secs(1), false);
        assert!(outcome.is_ok());
        assert_eq!(said, [0, 0]);
    }

    #[test]
    fn what_is_not_answered_ends_at_its_deadline() {
        let (outcome, said) = tried(Duration::from_millis(50), true);
        assert!(matches!(outcome, Err(RuntimeError::NoAnswer { .. })), "{outcome:?}");
        assert_eq!(said, [1, 1]);
    }
}
