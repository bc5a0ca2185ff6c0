//! What a server tells of its sessions by itself, and which of it a person wants to hear.
//!
//! ```text
//!            busy                 question, permission
//!  unknown ────────► working ◄──────────────────────────► waiting     (into waiting: Input)
//!     │                 │  │            reply                │
//!     │                 │  ├──── error ────► failed ◄────────┤        (into failed: Error)
//!     │ idle            │  └─ the user's no ► stopped ◄──────┘        (an interrupted turn, a rejected question)
//!     └───────────────► idle ◄── idle ───────┘                        (into idle, not from these two: Done)
//! ```
//!
//! An interrupt is told in three ways, by what the turn was at: as an error of the session, as one of its message, or,
//! between two tries of a request, not at all.

mod recent;

use std::time::Duration;

use serde_json::Value;

use recent::Recent;

use crate::http::Lines;
use crate::{Server, ServerError};

/// The server sends a sign of life every ten seconds.
const SILENCE: Duration = Duration::from_mins(1);

/// A longer name of a session is none: those of servers have thirty characters.
const LONGEST_NAME: usize = 256;

/// Why a person is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Occasion {
    /// A session waits for an answer.
    Input,
    /// A session has ended its work.
    Done,
    /// A session has failed.
    Error,
}

/// One thing to tell, or to forget, about one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A person wants to hear of it.
    Tell {
        /// The server's word for it; a guest can make it anything.
        session: String,
        /// What has become of the session.
        occasion: Occasion,
    },
    /// It works again: the next occasion is another one.
    Works { session: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Working,
    /// It waits for another try, which will be work.
    Retrying,
    Waiting,
    Failed,
    /// The user has seen to its end.
    Stopped,
    Idle,
}

/// From events to notices. Pure.
#[derive(Debug, Default)]
pub struct SessionWatch {
    states: Recent<State>,
    /// Sessions that another session started: it is that one's end that counts.
    children: Recent<()>,
}

impl SessionWatch {
    /// `event` is one message of `/global/event`.
    pub fn see(&mut self, event: &Value) -> Option<Notice> {
        let payload = event.get("payload")?;
        let kind = payload.get("type")?.as_str()?;
        let properties = payload.get("properties")?;
        let session = properties.get("sessionID")?.as_str()?;
        if session.len() > LONGEST_NAME {
            return None;
        }
        let session = session.to_string();
        // A message has a parent as well: the one that it answers.
        let of_session = matches!(kind, "session.created" | "session.updated");
        if of_session && properties.pointer("/info/parentID").is_some_and(Value::is_string) {
            self.children.insert(&session, ());
        }
        let before = self.states.get(&session).copied();
        let tell = |occasion| Some(Notice::Tell { session: session.clone(), occasion });
        let (after, notice) = match kind {
            "session.status" => match properties.pointer("/status/type")?.as_str()? {
                // It waits, and is busy with that.
                "busy" if before == Some(State::Waiting) => return None,
                "busy" => (State::Working, None),
                "retry" => (State::Retrying, None),
                _ => return None,
            },
            "question.asked" | "permission.asked" if before == Some(State::Waiting) => return None,
            "question.asked" | "permission.asked" => (State::Waiting, tell(Occasion::Input)),
            // What an interrupted turn has asked stays open, and an answer to that is heard by nobody.
            "question.replied" | "question.rejected" | "permission.replied"
                if matches!(before, Some(State::Stopped | State::Idle)) =>
            {
                return None;
            }
            // Where the turn goes on all the same, it says next that it is busy.
            "question.rejected" => (State::Stopped, None),
            "permission.replied" if properties.get("reply").is_some_and(|reply| reply == "reject") => {
                (State::Stopped, None)
            }
            "question.replied" | "permission.replied" => (State::Working, None),
            "session.idle" => match before {
                Some(State::Idle) => return None,
                Some(State::Failed | State::Stopped | State::Retrying) => (State::Idle, None),
                _ if self.children.get(&session).is_some() => (State::Idle, None),
                _ => (State::Idle, tell(Occasion::Done)),
            },
            "session.error" if is_interrupt(properties.pointer("/error")) => (State::Stopped, None),
            "session.error" => (State::Failed, tell(Occasion::Error)),
            // Of a turn that is over, it comes as well.
            "message.updated" if before == Some(State::Idle) => return None,
            "message.updated" if is_interrupt(properties.pointer("/info/error")) => (State::Stopped, None),
            _ => return None,
        };
        self.states.insert(&session, after);
        let worked = matches!(before, Some(State::Working | State::Retrying));
        match notice {
            None if after == State::Working && !worked => Some(Notice::Works { session }),
            notice => notice,
        }
    }
}

/// The user's own doing.
fn is_interrupt(error: Option<&Value>) -> bool {
    error.and_then(|error| error.get("name")).is_some_and(|name| name == "MessageAbortedError")
}

/// The events of every folder, as they happen.
pub struct Events(Lines);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// Begins to listen.
    pub fn open(server: &Server<'_>) -> Result<Self, ServerError> {
        server.listen("/global/event").map(Self)
    }

    /// The next one; `None` when the server ends the stream. A server that is silent for a minute is an error.
    pub fn hear(&mut self) -> Result<Option<Value>, ServerError> {
        while let Some(line) = self.0.read(SILENCE)? {
            // A message that is no JSON is none of those we know.
            if let Some(event) = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok()) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(watch: &mut SessionWatch, kind: &str, properties: Value) -> Option<Occasion> {
        let mut properties = properties;
        if properties.get("sessionID").is_none() {
            properties["sessionID"] = "ses_1".into();
        }
        let event = json!({ "directory": "/w", "payload": { "type": kind, "properties": properties } });
        match watch.see(&event) {
            Some(Notice::Tell { occasion, .. }) => Some(occasion),
            _ => None,
        }
    }

    fn busy(watch: &mut SessionWatch) -> Option<Occasion> {
        told(watch, "session.status", json!({ "status": { "type": "busy" } }))
    }

    #[test]
    fn a_session_is_told_of_once_for_each_thing_that_happens() {
        let watch = &mut SessionWatch::default();
        assert_eq!(busy(watch), None);
        assert_eq!(told(watch, "question.asked", json!({})), Some(Occasion::Input));
        // As it was seen: still busy, and a second question of the same turn.
        assert_eq!(busy(watch), None);
        assert_eq!(told(watch, "permission.asked", json!({})), None);
        assert_eq!(told(watch, "question.replied", json!({})), None);
        assert_eq!(told(watch, "permission.asked", json!({})), Some(Occasion::Input));
        assert_eq!(told(watch, "session.idle", json!({})), Some(Occasion::Done));
        assert_eq!(told(watch, "session.idle", json!({})), None);
        busy(watch);
        assert_eq!(told(watch, "session.error", json!({ "error": { "name": "X" } })), Some(Occasion::Error));
        assert_eq!(told(watch, "session.idle", json!({})), None, "an end after a failure is none");
        busy(watch);
        assert_eq!(told(watch, "session.error", json!({ "error": { "name": "MessageAbortedError" } })), None);
        assert_eq!(told(watch, "session.idle", json!({})), None);
    }

    #[test]
    fn what_the_user_ends_is_not_told() {
        let watch = &mut SessionWatch::default();
        let interrupt = |watch: &mut SessionWatch| {
            let error = json!({ "error": { "name": "MessageAbortedError" } });
            assert_eq!(told(watch, "session.error", error), None);
        };
        let idle = |watch: &mut SessionWatch| told(watch, "session.idle", json!({}));
        let message = |watch: &mut SessionWatch| {
            let info = json!({ "info": { "error": { "name": "MessageAbortedError" } } });
            assert_eq!(told(watch, "message.updated", info), None);
        };
        // In the midst of an answer.
        busy(watch);
        interrupt(watch);
        assert_eq!(idle(watch), None);
        message(watch);
        assert_eq!(idle(watch), None);
        // Before the model was asked.
        busy(watch);
        message(watch);
        assert_eq!(idle(watch), None);
        // While the next try is waited for; one that works is told.
        let retry = json!({ "status": { "type": "retry", "attempt": 1 } });
        for (tries_again, occasion) in [(false, None), (true, Some(Occasion::Done))] {
            busy(watch);
            assert_eq!(told(watch, "session.status", retry.clone()), None);
            if tries_again {
                busy(watch);
            }
            assert_eq!(idle(watch), occasion);
        }
        // While it waits for the user.
        busy(watch);
        assert_eq!(told(watch, "question.asked", json!({})), Some(Occasion::Input));
        interrupt(watch);
        assert_eq!(told(watch, "question.rejected", json!({})), None);
        assert_eq!(idle(watch), None);
        let late =
            json!({ "payload": { "type": "question.replied", "properties": { "sessionID": "ses_1" } } });
        assert_eq!(watch.see(&late), None, "it does not work again");
        let no = [("question.rejected", json!({})), ("permission.replied", json!({ "reply": "reject" }))];
        for (kind, reply) in &no {
            busy(watch);
            assert_eq!(told(watch, "permission.asked", json!({})), Some(Occasion::Input));
            assert_eq!(told(watch, kind, reply.clone()), None);
            assert_eq!(idle(watch), None, "{kind}");
        }
        // It may go on without what was refused, and the next turn is another one.
        for (kind, reply) in no {
            busy(watch);
            told(watch, "permission.asked", json!({}));
            told(watch, kind, reply);
            busy(watch);
            assert_eq!(idle(watch), Some(Occasion::Done), "{kind}");
        }
        busy(watch);
        told(watch, "permission.asked", json!({}));
        told(watch, "permission.replied", json!({ "reply": "once" }));
        assert_eq!(idle(watch), Some(Occasion::Done));
    }

    #[test]
    fn sessions_are_told_apart_and_those_of_others_are_not_told() {
        let watch = &mut SessionWatch::default();
        busy(watch);
        assert_eq!(told(watch, "session.idle", json!({ "sessionID": "ses_2" })), Some(Occasion::Done));
        told(watch, "session.created", json!({ "sessionID": "ses_3", "info": { "parentID": "ses_1" } }));
        assert_eq!(told(watch, "session.idle", json!({ "sessionID": "ses_3" })), None);
        let answer = json!({ "sessionID": "ses_4", "info": { "parentID": "msg_1" } });
        told(watch, "message.updated", answer);
        assert_eq!(told(watch, "session.idle", json!({ "sessionID": "ses_4" })), Some(Occasion::Done));
        let question = json!({ "sessionID": "ses_3" });
        assert_eq!(told(watch, "question.asked", question), Some(Occasion::Input));
        assert_eq!(told(watch, "session.idle", json!({})), Some(Occasion::Done));
    }

    #[test]
    fn what_is_not_understood_is_nothing() {
        let watch = &mut SessionWatch::default();
        for event in [json!(null), json!({ "payload": 1 }), json!({ "payload": { "type": "session.idle" } })]
        {
            assert_eq!(watch.see(&event), None);
        }
        let named = |length| json!({ "sessionID": "s".repeat(length) });
        assert_eq!(told(watch, "session.idle", named(256)), Some(Occasion::Done));
        assert_eq!(told(watch, "session.idle", named(257)), None);
    }
}
