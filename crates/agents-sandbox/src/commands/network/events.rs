//! Reading a sandbox's events.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

use sandbox_model::Destination;
use sandbox_network::{Event, Verdict};

use crate::error::CommandError;

/// A log of events, and how far it has been read.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    read: u64,
    /// The beginning of a line whose end has not been written yet.
    partial: Vec<u8>,
}

impl Events {
    pub const fn new(path: PathBuf) -> Self {
        Self { path, read: 0, partial: Vec::new() }
    }

    /// What came since the last look. A line that is no event is left out: another version may have
    /// written it.
    pub fn more(&mut self) -> Result<Vec<Event>, CommandError> {
        let mut file = match fs_err::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.len() < self.read {
            // Begun anew.
            self.read = 0;
            self.partial.clear();
        }
        file.seek(SeekFrom::Start(self.read))?;
        self.read += file.read_to_end(&mut self.partial)? as u64;
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        Ok(lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

/// Something that was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The name where there is one, whatever its address; else the address.
    pub destination: String,
    /// Name and address, for people.
    pub subject: String,
    /// How often.
    pub count: usize,
    /// The entry that would open it.
    pub opens: Option<String>,
}

/// What was denied, each thing once.
pub fn blocked(events: &[Event]) -> Vec<Blocked> {
    let mut blocked: BTreeMap<String, Blocked> = BTreeMap::new();
    for event in events.iter().filter(|event| event.verdict == Verdict::Denied) {
        let subject = subject(event);
        let new = || Blocked {
            destination: event.name.clone().unwrap_or_else(|| subject.clone()),
            subject: subject.clone(),
            count: 0,
            opens: proposal(event).map(String::from),
        };
        blocked.entry(subject.clone()).or_insert_with(new).count += 1;
    }
    blocked.into_values().collect()
}

/// The entry that would open what was denied. A guest names hosts as it likes: what is no entry is none to copy
/// into a shell.
pub fn proposal(event: &Event) -> Option<&str> {
    event.opens.as_deref().filter(|entry| entry.parse::<Destination>().is_ok())
}

/// The name where there is one: a person knows it.
pub fn subject(event: &Event) -> String {
    match (&event.name, &event.address) {
        (Some(name), Some(address)) => format!("{name} ({address})"),
        (Some(name), None) => name.clone(),
        (None, Some(address)) => address.clone(),
        (None, None) => event.kind.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_network::EventKind;

    use super::*;

    fn event(name: &str, verdict: Verdict) -> Event {
        Event {
            at: 1,
            verdict,
            kind: EventKind::Name,
            name: Some(name.into()),
            address: None,
            rule: "outside of profile none".into(),
            opens: Some(name.into()),
        }
    }

    #[test]
    fn a_growing_log_is_read_in_whole_lines_and_may_begin_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("network.log");
        let mut events = Events::new(path.clone());
        assert_eq!(events.more().unwrap(), []);
        let line = |name| serde_json::to_string(&event(name, Verdict::Denied)).unwrap();
        std::fs::write(&path, format!("{}\nnot json\n{}", line("a"), &line("b")[..20])).unwrap();
        assert_eq!(events.more().unwrap(), [event("a", Verdict::Denied)]);
        std::fs::write(&path, format!("{}\nnot json\n{}\n", line("a"), line("b"))).unwrap();
        assert_eq!(events.more().unwrap(), [event("b", Verdict::Denied)]);
        std::fs::write(&path, format!("{}\n", line("c"))).unwrap();
        assert_eq!(events.more().unwrap(), [event("c", Verdict::Denied)]);
    }

    #[test]
    fn what_was_blocked_is_counted_once_each() {
        let events = [("b", Verdict::Denied), ("a", Verdict::Allowed), ("b", Verdict::Denied)]
            .map(|(n, v)| event(n, v));
        let told = |events: &[Event]| {
            let told =
                blocked(events).into_iter().map(|blocked| (blocked.subject, blocked.count, blocked.opens));
            told.collect::<Vec<_>>()
        };
        assert_eq!(told(&events), [("b".to_string(), 2, Some("b".to_string()))]);
        let hostile = event("$(id).example", Verdict::Denied);
        assert_eq!(told(&[hostile]), [("$(id).example".to_string(), 1, None)]);
        let found = Event { address: Some("192.0.2.1:443".into()), ..event("c", Verdict::Denied) };
        let [Blocked { destination, subject, .. }] = &blocked(&[found])[..] else { panic!("one") };
        assert_eq!((destination.as_str(), subject.as_str()), ("c", "c (192.0.2.1:443)"));
    }
}
