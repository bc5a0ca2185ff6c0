use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use sandbox_model::{Activity, ActivityError, NoSessions, Session, SessionKind};
use serde::Deserialize;

use crate::{Server, ServerError};

/// How many of the last touched sessions are looked at for their folders. A session that works was touched
/// just now, so the first page holds all that matter.
const SESSIONS: usize = 100;

/// Asks an agent's server what its sessions do, in every folder they work in.
///
/// The server's status is one map per folder. Absent from it means idle; a session that waits for an answer
/// is `busy` there, and is told apart by the folder's open questions and permissions.
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
                let open: Vec<Request> = self.ask(path, &directory)?;
                waiting.extend(open.into_iter().map(|request| request.session_id));
            }
            sessions.extend(status.into_iter().map(|(id, status)| Session {
                kind: status.kind(waiting.contains(&id)),
                directory: Some(PathBuf::from(&directory)),
            }));
        }
        Ok(sessions)
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

#[derive(Debug, Deserialize)]
struct Request {
    #[serde(rename = "sessionID")]
    session_id: String,
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
    fn what_a_newer_server_might_say_holds_the_sandbox() {
        assert_eq!(kinds(r#"{"s":{"type":"compacting","step":1}}"#, &[]), [SessionKind::Busy]);
        assert_eq!(kinds(r#"{"s":{"type":"idle"}}"#, &["s"]), [SessionKind::Idle]);
    }
}
