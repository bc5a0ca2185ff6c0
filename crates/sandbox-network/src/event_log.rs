//! Where events go: denials as lines for people, and all of them as JSON.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::event::{Event, EventKind, Verdict};

/// One subject is told once in this time, and at most so many are.
const WINDOW: Duration = Duration::from_mins(1);
const LINES: usize = 20;
const EVENTS: usize = 400;
/// A log of events beyond this begins anew.
const LIMIT: u64 = 8 << 20;

/// Keeps a guest that knocks on every door from filling a log.
#[derive(Debug)]
pub(crate) struct Limiter {
    begin: Instant,
    most: usize,
    seen: HashSet<String>,
}

impl Limiter {
    pub fn new(most: usize, now: Instant) -> Self {
        Self { begin: now, most, seen: HashSet::new() }
    }

    /// What to write about `subject`, if anything.
    pub fn admit(&mut self, subject: &str, now: Instant) -> Admission {
        if now.duration_since(self.begin) >= WINDOW {
            *self = Self::new(self.most, now);
        }
        if self.seen.contains(subject) || self.seen.len() > self.most {
            return Admission::Silent;
        }
        self.seen.insert(subject.into());
        if self.seen.len() > self.most { Admission::LastWord } else { Admission::Line }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Line,
    /// This and all others go unreported for a while.
    LastWord,
    Silent,
}

/// Cheap to clone; all clones are the same log.
#[derive(Clone)]
pub(crate) struct EventLog {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    lines: Limiter,
    /// Denials, for people.
    to: Box<dyn Write + Send>,
    events: Limiter,
    file: Option<File>,
    /// Where connections were refused for a name that was told.
    named: HashSet<SocketAddr>,
    /// Names that were refused, in lower case.
    refused: HashSet<String>,
}

impl EventLog {
    /// Denials go to `to`, everything to `file`.
    pub fn new(to: Box<dyn Write + Send>, file: Option<File>) -> Self {
        let now = Instant::now();
        let (lines, events) = (Limiter::new(LINES, now), Limiter::new(EVENTS, now));
        let (named, refused) = (HashSet::new(), HashSet::new());
        Self { inner: Arc::new(Mutex::new(Inner { lines, to, events, file, named, refused })) }
    }

    /// Reports the refusal of a connection to `to` for the name that it says.
    pub fn report_named(&self, event: &Event, to: SocketAddr) {
        self.report(event);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.named.len() >= EVENTS {
            inner.named.clear();
        }
        inner.named.insert(to);
    }

    /// Whether such a refusal was reported: whoever knows no name has nothing to add.
    pub fn has_named(&self, to: SocketAddr) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).named.contains(&to)
    }

    /// Whether a name was refused lately, whose resolution fails therefore.
    pub fn has_refused(&self, name: &str) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).refused.contains(name)
    }

    /// A log that cannot be written is no reason to stop the guest's network.
    pub fn report(&self, event: &Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        let (subject, now) = (event.subject(), Instant::now());
        if let (Verdict::Denied, EventKind::Name, Some(name)) = (event.verdict, event.kind, &event.name) {
            if inner.refused.len() >= EVENTS {
                inner.refused.clear();
            }
            inner.refused.insert(name.trim_end_matches('.').to_ascii_lowercase());
        }
        if event.verdict != Verdict::Allowed {
            let verdict = if event.verdict == Verdict::Denied { "denied" } else { "failed" };
            // One limit for both: what goes unreported may be either.
            let _ = match inner.lines.admit(&subject, now) {
                Admission::Line => {
                    writeln!(inner.to, "network: {verdict} {subject}: {}", event.reason())
                }
                Admission::LastWord => {
                    writeln!(inner.to, "network: more is denied or fails; not shown for a minute")
                }
                Admission::Silent => Ok(()),
            };
        }
        let Some(file) = &mut inner.file else { return };
        if inner.events.admit(&format!("{:?} {subject}", event.verdict), now) == Admission::Line
            && let Ok(mut line) = serde_json::to_vec(event)
        {
            line.push(b'\n');
            if file.metadata().is_ok_and(|found| found.len() > LIMIT) {
                let _ = file.set_len(0);
            }
            let _ = file.write_all(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_told_once_and_a_flood_ends_in_one_line() {
        let begin = Instant::now();
        let mut limiter = Limiter::new(LINES, begin);
        assert_eq!(limiter.admit("a", begin), Admission::Line);
        assert_eq!(limiter.admit("a", begin + WINDOW / 2), Admission::Silent);
        let flood: Vec<_> = (0..100).map(|i| limiter.admit(&format!("b{i}"), begin)).collect();
        assert_eq!(flood.iter().filter(|a| **a == Admission::Line).count(), LINES - 1);
        assert_eq!(flood.iter().filter(|a| **a == Admission::LastWord).count(), 1);
        assert_eq!(limiter.admit("a", begin + WINDOW), Admission::Line, "a new minute");
    }
}
