use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use sandbox_model::{Activity, ActivityError, NoSessions, Session, SessionKind};
use serde::Deserialize;

use crate::server::encoded;
use crate::{Server, ServerError};

/// How many of the last touched sessions are looked at for their folders. A session that works was touched
/// just now, so the first page holds all that matter.
const SESSIONS: usize = 100;

/// Asks an agent's server what its sessions do, in every folder they work in.
///
/// The server's status is one map per folder. Absent from it means idle; a session that waits for an answer
/// is `busy` there, and is told apart by the folder's open questions and permissions. Of an interrupted turn
/// these stay open for as long as the server runs: nobody waits for them, whatever the session does next.
#[derive(Debug)]
pub struct ServerActivity<'a> {
    server: Server<'a>,
    /// Asked about even where no session is known.
    main: String,
}

/// How to ask this server about sessions: nobody to ask where the agent does not tell.
///
/// `main` is the guest folder of the checkout.
pub fn activity<'a>(server: Server<'a>, main: &str) -> Box<dyn Activity + 'a> {
    if server.profile().session_status {
        Box::new(ServerActivity { server, main: main.into() })
    } else {
        Box::new(NoSessions)
    }
}

impl Activity for ServerActivity<'_> {
    fn poll(&mut self) -> Result<Vec<Session>, ActivityError> {
        self.sessions().map_err(|error| ActivityError(error.to_string()))
    }
}

impl ServerActivity<'_> {
    fn sessions(&self) -> Result<Vec<Session>, ServerError> {
        let mut sessions = Vec::new();
        for directory in self.directories()? {
            let status: BTreeMap<String, Status> = self.ask("/session/status", &directory)?;
            if status.is_empty() {
                continue;
            }
            let mut waiting = HashSet::new();
            for path in ["/question", "/permission"] {
                for request in newest(self.ask(path, &directory)?) {
                    if status.contains_key(&request.session_id) && self.is_waited_for(&request, &directory)? {
                        waiting.insert(request.session_id);
                    }
                }
            }
            sessions.extend(status.into_iter().map(|(id, status)| Session {
                kind: status.kind(waiting.contains(&id)),
                directory: Some(PathBuf::from(&directory)),
            }));
        }
        Ok(sessions)
    }

    /// Whether the message that asks is still being written: it ends with its turn at the latest.
    fn is_waited_for(&self, request: &Request, directory: &str) -> Result<bool, ServerError> {
        let Some(Origin { message_id }) = &request.tool else { return Ok(true) };
        let path = format!("/session/{}/message/{}", encoded(&request.session_id), encoded(message_id));
        match self.ask::<Message>(&path, directory) {
            Ok(message) => Ok(message.info.time.completed.is_none()),
            Err(ServerError::Status { status: 404, .. }) => Ok(false),
            // A newer server's, or one that is too long: it asks, as far as is known.
            Err(ServerError::Status { .. } | ServerError::Malformed { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The checkout, and every folder of a session touched lately: worktrees, subfolders, other projects.
    fn directories(&self) -> Result<BTreeSet<String>, ServerError> {
        let everywhere = format!("/experimental/session?limit={SESSIONS}&archived=true");
        let listed: Vec<Listed> = match self.server.json(&everywhere, Some(&self.main)) {
            // A server without that path knows at least the sessions of this project's folders.
            Err(ServerError::Status { status: 404, .. }) => {
                self.ask(&format!("/session?limit={SESSIONS}"), &self.main)?
            }
            other => other?,
        };
        Ok(listed.into_iter().map(|session| session.directory).chain([self.main.clone()]).collect())
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, path: &str, directory: &str) -> Result<T, ServerError> {
        self.server.json(path, Some(directory))
    }
}

#[derive(Debug, Deserialize)]
struct Listed {
    directory: String,
}

/// A question or a permission.
#[derive(Debug, Deserialize)]
struct Request {
    /// Later ones are greater.
    #[serde(default)]
    id: String,
    #[serde(rename = "sessionID")]
    session_id: String,
    tool: Option<Origin>,
}

/// The call of a tool that asks.
#[derive(Debug, Deserialize)]
struct Origin {
    #[serde(rename = "messageID")]
    message_id: String,
}

#[derive(Debug, Deserialize)]
struct Message {
    info: MessageInfo,
}

#[derive(Debug, Deserialize)]
struct MessageInfo {
    time: MessageTime,
}

#[derive(Debug, Deserialize)]
struct MessageTime {
    completed: Option<serde_json::Number>,
}

/// The newest of each session, which is the one of its present turn where there is one.
fn newest(mut requests: Vec<Request>) -> impl Iterator<Item = Request> {
    requests.sort_by(|one, other| one.id.cmp(&other.id));
    let of_sessions: BTreeMap<String, Request> =
        requests.into_iter().map(|request| (request.session_id.clone(), request)).collect();
    of_sessions.into_values()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", tag = "type")]
enum Status {
    Idle,
    Busy,
    Retry {
        #[serde(default)]
        attempt: u32,
    },
    /// A word of a newer server. It is not idle, so it holds the sandbox.
    #[serde(other)]
    Unknown,
}

impl Status {
    const fn kind(&self, waiting: bool) -> SessionKind {
        match self {
            Self::Idle => SessionKind::Idle,
            Self::Retry { attempt } => SessionKind::Retry { attempt: *attempt },
            Self::Busy | Self::Unknown if waiting => SessionKind::WaitingForUser,
            Self::Busy | Self::Unknown => SessionKind::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(json: &str, waiting: &[&str]) -> Vec<SessionKind> {
        let status: BTreeMap<String, Status> = serde_json::from_str(json).unwrap();
        status.iter().map(|(id, status)| status.kind(waiting.contains(&id.as_str()))).collect()
    }

    #[test]
    fn answers_of_a_real_server() {
        assert_eq!(kinds("{}", &[]), []);
        assert_eq!(kinds(r#"{"ses_dd7adae95ffeVrOvJ0g6hvh1ol":{"type":"busy"}}"#, &[]), [SessionKind::Busy]);
        let retry = r#"{"ses_dd7adace8ffeWoxjAqTGCqu9Gr":{"type":"retry","attempt":2,"message":"fake overload","next":1795972823079}}"#;
        assert_eq!(kinds(retry, &[]), [SessionKind::Retry { attempt: 2 }]);
        let question: Vec<Request> = serde_json::from_str(
            r#"[{"id":"que_228525bbd001q0Yldg3Ay2mYKV","sessionID":"ses_dd7ada964ffee7CYf0Kc5rSYyl","questions":[{"question":"Which colour?","header":"Colour","options":[{"label":"red","description":"r"}]}],"tool":{"messageID":"msg_1","callID":"call_1"}}]"#,
        )
        .unwrap();
        let busy = r#"{"ses_dd7ada964ffee7CYf0Kc5rSYyl":{"type":"busy"}}"#;
        assert_eq!(kinds(busy, &[&question[0].session_id]), [SessionKind::WaitingForUser]);
    }

    #[test]
    fn the_newest_request_of_a_session_counts() {
        let requests = r#"[{"id":"que_2","sessionID":"a"},{"id":"que_1","sessionID":"a"},{"sessionID":"b"}]"#;
        let ids = newest(serde_json::from_str(requests).unwrap()).map(|request| request.id);
        assert_eq!(ids.collect::<Vec<_>>(), ["que_2", ""]);
    }

    #[test]
    fn what_a_newer_server_might_say_holds_the_sandbox() {
        assert_eq!(kinds(r#"{"s":{"type":"compacting","step":1}}"#, &[]), [SessionKind::Busy]);
        assert_eq!(kinds(r#"{"s":{"type":"idle"}}"#, &["s"]), [SessionKind::Idle]);
    }
}
