use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sandbox_model::AgentRules;
use sha2::{Digest, Sha256};

use crate::message::{FAILURE, Fields, IDENTITIES_ANSWER, Malformed, put_string};

/// A key that an agent holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The public key, as the protocol writes it.
    pub key: Vec<u8>,
    /// The key's name, for people: as a rule the file or the address that it was made with.
    pub comment: String,
}

impl Identity {
    /// Whether the rules let a guest use it.
    pub fn is_allowed(&self, rules: &AgentRules) -> bool {
        let named = |name: &String| *name == self.comment || *name == fingerprint(&self.key);
        rules.keys.is_empty() || rules.keys.iter().any(named)
    }
}

/// As `ssh-add -l` shows it.
pub fn fingerprint(key: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(key)))
}

/// The keys in an agent's answer.
pub fn parse(body: &[u8]) -> Result<Vec<Identity>, Malformed> {
    match body.split_first() {
        Some((&IDENTITIES_ANSWER, fields)) => {
            let mut fields = Fields(fields);
            let count = fields.number()?;
            let identity = |_| {
                let key = fields.string()?.to_vec();
                let comment = String::from_utf8_lossy(fields.string()?).into_owned();
                Ok(Identity { key, comment })
            };
            (0..count).map(identity).collect()
        }
        // A locked agent says it has none; one that refuses has none to give.
        Some((&FAILURE, _)) => Ok(Vec::new()),
        _ => Err(Malformed),
    }
}

/// The answer that lists them.
pub fn answer(identities: &[Identity]) -> Vec<u8> {
    let mut body = vec![IDENTITIES_ANSWER];
    body.extend(u32::try_from(identities.len()).unwrap_or(u32::MAX).to_be_bytes());
    for identity in identities {
        put_string(&mut body, &identity.key);
        put_string(&mut body, identity.comment.as_bytes());
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(comment: &str) -> Identity {
        Identity { key: format!("key of {comment}").into_bytes(), comment: comment.into() }
    }

    #[test]
    fn a_list_comes_back() {
        let all = [identity("a"), identity("b@c")];
        assert_eq!(parse(&answer(&all)).unwrap(), all);
        assert_eq!(parse(&[FAILURE]).unwrap(), []);
        let whole = answer(&all);
        assert!((0..whole.len()).all(|length| parse(&whole[..length]).is_err()));
        // A number that nothing stands behind.
        assert_eq!(parse(&[IDENTITIES_ANSWER, 0xff, 0xff, 0xff, 0xff]), Err(Malformed));
    }

    #[test]
    fn a_key_is_named_by_its_comment_or_its_fingerprint() {
        let rules = |keys: &[&str]| AgentRules {
            keys: keys.iter().map(ToString::to_string).collect(),
            git_signatures_only: false,
        };
        let key = identity("me@home");
        assert!(key.is_allowed(&rules(&[])));
        assert!(key.is_allowed(&rules(&["other", "me@home"])));
        assert!(key.is_allowed(&rules(&[&fingerprint(&key.key)])));
        assert!(!key.is_allowed(&rules(&["me", "SHA256:"])));
    }
}
