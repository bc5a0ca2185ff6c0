use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{AgentName, CheckoutSlug};

/// A text that is no name of its kind. Names become files and arguments, so that what is refused here goes
/// nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not the name of {}: {rule}", with_article(.what))]
pub struct InvalidName {
    /// The kind, without an article: `volume`.
    pub what: &'static str,
    /// The refused text, as it was.
    pub name: String,
    /// What a name of this kind has to be: a sentence that begins with "it must".
    pub rule: &'static str,
}

fn with_article(what: &str) -> String {
    format!("{} {what}", if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" })
}

const PLAIN_RULE: &str =
    "it must have 1 to 128 characters from a-z, A-Z, 0-9, `.`, `_` and `-`, and start with a letter or digit";

/// The names of files we make: no separator, no leading dot or dash, no control character.
fn plain(what: &'static str, name: &str) -> Result<(), InvalidName> {
    let good = (1..=128).contains(&name.len())
        && name.as_bytes()[0].is_ascii_alphanumeric()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if good { Ok(()) } else { Err(InvalidName { what, name: name.into(), rule: PLAIN_RULE }) }
}

macro_rules! plain_name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The name, safe as that of a file and as a word of a command.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                plain($what, text).map(|()| Self(text.into()))
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl AsRef<std::path::Path> for $type {
            fn as_ref(&self) -> &std::path::Path {
                self.0.as_ref()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

plain_name!(
    /// `<checkout-slug>-<agent>`. Safe as a file name.
    SandboxName,
    "sandbox"
);
plain_name!(
    /// `<checkout-slug>-<agent>-<timestamp>`. Safe as a file name.
    VolumeName,
    "volume"
);

impl SandboxName {
    /// The one sandbox of this checkout and agent.
    pub fn new(checkout: &CheckoutSlug, agent: AgentName) -> Self {
        Self(format!("{checkout}-{agent}"))
    }
}

impl VolumeName {
    /// `stamp` is UTC `YYYYMMDDTHHMMSS`; the caller adds a suffix when the name is taken.
    pub fn new(checkout: &CheckoutSlug, agent: AgentName, stamp: &str) -> Result<Self, InvalidName> {
        format!("{checkout}-{agent}-{stamp}").parse()
    }
}

/// An image's name in the engine and in the runtime: `agents-sandbox/runner-<slug>:<agent>-latest`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageRef(String);

impl ImageRef {
    /// The reference of the image that is built for this checkout and agent.
    pub fn runner(checkout: &CheckoutSlug, agent: AgentName) -> Self {
        Self(format!("agents-sandbox/runner-{checkout}:{agent}-latest"))
    }

    /// The whole reference, with its tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ImageRef {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let rule = "it must be a reference such as name:tag or registry/name:tag, without spaces";
        let good = (1..=255).contains(&text.len())
            && text.as_bytes()[0].is_ascii_alphanumeric()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/' | b':' | b'@'));
        if good { Ok(Self(text.into())) } else { Err(InvalidName { what: "image", name: text.into(), rule }) }
    }
}

impl TryFrom<String> for ImageRef {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<ImageRef> for String {
    fn from(name: ImageRef) -> Self {
        name.0
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_folder_or_become_an_option_are_refused() {
        for name in ["", ".", "..", "a/b", "-rf", ".hidden", "a\nb", "ä", &"x".repeat(129)] {
            assert!(name.parse::<SandboxName>().is_err(), "{name:?}");
        }
        assert!("my-project-4chyvv5c1qh507-claude-code".parse::<SandboxName>().is_ok());
    }
}
