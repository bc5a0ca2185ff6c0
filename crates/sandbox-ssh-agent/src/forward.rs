use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;

use sandbox_model::AgentRules;

use crate::agent::{Agent, AgentError};
use crate::identity::{self, Identity, fingerprint};
use crate::message::{self, FAILURE, Request, SIGN_RESPONSE};
use crate::purpose::Purpose;

/// One use of the user's agent, for its log. Names from the guest's side are as they came.
#[derive(Debug)]
pub enum Event<'a> {
    /// The guest has seen which keys there are for it.
    Listed {
        /// How many the rules let it see.
        keys: usize,
    },
    /// The agent has signed, and the guest has the signature.
    Signed {
        /// The key, under the name that the agent has for it.
        key: &'a Identity,
        /// What the signed data says it is.
        purpose: &'a Purpose,
    },
    /// The rules, or the agent itself, said no.
    Refused {
        /// The key that was meant; `None` where no key was, or none that the agent has.
        key: Option<&'a Identity>,
        /// What was asked, in words.
        what: String,
        /// Why not, in words.
        why: &'static str,
    },
    /// The agent gave no answer, which ends the client's connection.
    Failed(&'a AgentError),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |key: &Identity| format!("{} ({})", key.comment, fingerprint(&key.key));
        match self {
            Self::Listed { keys: 1 } => f.write_str("listed 1 key"),
            Self::Listed { keys } => write!(f, "listed {keys} keys"),
            Self::Signed { key, purpose } => write!(f, "signed with {}: {purpose}", name(key)),
            Self::Refused { key: Some(key), what, why } => {
                write!(f, "refused with {}: {what}: {why}", name(key))
            }
            Self::Refused { key: None, what, why } => write!(f, "refused: {what}: {why}"),
            Self::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}

/// Answers one client of a guest until it leaves. `now` gives the user's sockets (the newest first) and the rules
/// as they are at each request. An agent that is gone ends the connection, so that the client says at once that
/// it cannot speak with its agent.
pub fn forward(
    client: &mut (impl Read + Write + ?Sized),
    now: impl Fn() -> (Vec<PathBuf>, AgentRules),
    tell: impl Fn(&Event<'_>),
) -> std::io::Result<()> {
    while let Some(body) = message::read(client)? {
        let (sockets, rules) = now();
        match answer(&body, &Agent(&sockets), &rules, &tell) {
            Ok(answer) => client.write_all(&message::framed(&answer))?,
            Err(error) => {
                tell(&Event::Failed(&error));
                return Ok(());
            }
        }
        client.flush()?;
    }
    Ok(())
}

fn answer(
    body: &[u8],
    agent: &Agent<'_>,
    rules: &AgentRules,
    tell: &impl Fn(&Event<'_>),
) -> Result<Vec<u8>, AgentError> {
    let refuse = |key: Option<&Identity>, what: String, why: &'static str| {
        tell(&Event::Refused { key, what, why });
        Ok(vec![FAILURE])
    };
    match Request::parse(body) {
        Ok(Request::Identities) => {
            let mut identities = agent.identities()?;
            identities.retain(|identity| identity.is_allowed(rules));
            tell(&Event::Listed { keys: identities.len() });
            Ok(identity::answer(&identities))
        }
        Ok(Request::Sign { key, data }) => {
            let purpose = Purpose::of(data);
            let identities = agent.identities()?;
            let Some(known) = identities.iter().find(|identity| identity.key == key) else {
                return refuse(None, format!("{purpose} with {}", fingerprint(key)), "no such key");
            };
            if !known.is_allowed(rules) {
                return refuse(Some(known), purpose.to_string(), "not a key for this sandbox");
            }
            if rules.git_signatures_only && !purpose.is_git() {
                return refuse(Some(known), purpose.to_string(), "only git may sign");
            }
            let answer = agent.sign(body)?;
            if answer.first() == Some(&SIGN_RESPONSE) {
                tell(&Event::Signed { key: known, purpose: &purpose });
                Ok(answer)
            } else {
                refuse(Some(known), purpose.to_string(), "the agent did not sign")
            }
        }
        Ok(Request::Other(what)) => refuse(None, what.into(), "not for a sandbox"),
        Err(malformed) => refuse(None, malformed.to_string(), "not for a sandbox"),
    }
}
