use std::fmt;

use crate::message::Fields;

const SIGNATURE: &[u8] = b"SSHSIG";
const USERAUTH_REQUEST: u8 = 50;

/// What a signature is for, as the data to be signed says (PROTOCOL.sshsig, RFC 4252 section 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// A signature of a file or of a commit: the namespace, `git` for git.
    Signature(String),
    /// A login as this user, somewhere.
    Login(String),
    /// Neither: a certificate's data, say, or what an unknown program signs.
    Unknown,
}

impl Purpose {
    /// Takes the whole data of a request. It only reads: a guest can sign whatever it says it is.
    pub fn of(data: &[u8]) -> Self {
        Self::signature(data).or_else(|| Self::login(data)).unwrap_or(Self::Unknown)
    }

    fn signature(data: &[u8]) -> Option<Self> {
        let mut fields = Fields(data.strip_prefix(SIGNATURE)?);
        Some(Self::Signature(text(fields.string().ok()?)))
    }

    fn login(data: &[u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let _session = fields.string().ok()?;
        let (kind, rest) = fields.0.split_first()?;
        let mut fields = Fields(rest);
        let user = fields.string().ok()?;
        let service = fields.string().ok()?;
        (*kind == USERAUTH_REQUEST && service == b"ssh-connection").then(|| Self::Login(text(user)))
    }

    /// A commit or a tag, and nothing that opens a door: no login's data begins like a signature's, whose first
    /// field would be longer than any message.
    pub fn is_git(&self) -> bool {
        *self == Self::Signature("git".into())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature(namespace) => write!(f, "a signature for {namespace}"),
            Self::Login(user) => write!(f, "a login as {user}"),
            Self::Unknown => f.write_str("a signature of something unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::put_string;

    #[test]
    fn a_commit_is_told_from_a_login() {
        let mut commit = SIGNATURE.to_vec();
        put_string(&mut commit, b"git");
        commit.extend(b"whatever follows");
        assert!(Purpose::of(&commit).is_git());
        let mut file = SIGNATURE.to_vec();
        put_string(&mut file, b"file");
        assert_eq!(Purpose::of(&file).to_string(), "a signature for file");

        let login = |service: &[u8]| {
            let mut login = Vec::new();
            put_string(&mut login, b"session");
            login.push(USERAUTH_REQUEST);
            put_string(&mut login, b"git");
            put_string(&mut login, service);
            Purpose::of(&login)
        };
        assert_eq!(login(b"ssh-connection").to_string(), "a login as git");
        assert!(!login(b"ssh-connection").is_git());
        assert_eq!(login(b"other"), Purpose::Unknown);
        assert_eq!(Purpose::of(b""), Purpose::Unknown);
        assert_eq!(Purpose::of(SIGNATURE), Purpose::Unknown);
    }
}
