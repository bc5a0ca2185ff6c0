use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `sha256:` and 64 lower-case hex digits: the identity of an image's content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// A text that is no digest; it holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest; a digest is sha256: and 64 hex digits")]
pub struct InvalidDigest(pub String);

impl Digest {
    /// The 64 hex digits, without `sha256:`. Safe as a file name.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }

    /// The full form, with `sha256:`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `sha256:` and 12 hex digits, as tables show it.
    pub fn short(&self) -> &str {
        &self.0[.."sha256:".len() + 12]
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    /// Takes the full form, or the 64 hex digits alone (as buildah prints image ids).
    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        let plain = hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if plain { Ok(Self(format!("sha256:{hex}"))) } else { Err(InvalidDigest(text.into())) }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
