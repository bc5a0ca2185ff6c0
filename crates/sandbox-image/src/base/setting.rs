use std::fmt;
use std::str::FromStr;

use sandbox_model::ImageRef;

/// What `auto` asks registries for.
pub const DEFAULT_BASE: &str = "debian:trixie-slim";
/// What `auto` bootstraps where it can.
pub(super) const DEFAULT_SUITE: &str = "trixie";
/// Bootstrapped bases are in no registry; the suite is the tag.
pub const BOOTSTRAP_REPOSITORY: &str = "localhost/agents-sandbox/base";

/// `image.base`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BaseSetting {
    /// [`DEFAULT_BASE`] where it is at hand or can be fetched, else a bootstrapped base.
    #[default]
    Auto,
    /// An image that the engine has or fetches, by its name.
    Reference(ImageRef),
    /// A release of Debian or Ubuntu, by its code name.
    Bootstrap(String),
}

/// A text that is no value of `image.base`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a base image: {rule}")]
pub struct InvalidBase {
    /// The refused text, as it was.
    pub text: String,
    /// What it has to be: the end of a sentence.
    pub rule: String,
}

impl BaseSetting {
    /// The reference that the setting alone decides; `None` for `auto`.
    pub(crate) fn reference(&self) -> Option<String> {
        match self {
            Self::Auto => None,
            Self::Reference(reference) => Some(reference.to_string()),
            Self::Bootstrap(suite) => Some(bootstrapped(suite)),
        }
    }
}

pub(super) fn bootstrapped(suite: &str) -> String {
    format!("{BOOTSTRAP_REPOSITORY}:{suite}")
}

impl FromStr for BaseSetting {
    type Err = InvalidBase;

    fn from_str(text: &str) -> Result<Self, InvalidBase> {
        let invalid = |rule: String| InvalidBase { text: text.into(), rule };
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let Some(suite) = text.strip_prefix("bootstrap:") else {
            return text.parse().map(Self::Reference).map_err(|error: sandbox_model::InvalidName| {
                invalid(format!("{}, or auto, or bootstrap:SUITE", error.rule))
            });
        };
        let good = (1..=32).contains(&suite.len())
            && suite.starts_with(|c: char| c.is_ascii_lowercase())
            && suite.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if good {
            Ok(Self::Bootstrap(suite.into()))
        } else {
            Err(invalid("after bootstrap: comes a release's code name, such as trixie".into()))
        }
    }
}

impl fmt::Display for BaseSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Reference(reference) => write!(f, "{reference}"),
            Self::Bootstrap(suite) => write!(f, "bootstrap:{suite}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_back_as_they_were_written() {
        for text in ["auto", "debian:trixie-slim", "registry.example/a/b@sha256:00", "bootstrap:trixie"] {
            assert_eq!(text.parse::<BaseSetting>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn options_and_paths_are_no_bases() {
        for text in ["", "--pull", "a b", "bootstrap:", "bootstrap:../x", "bootstrap:-x", "bootstrap:Trixie"]
        {
            let error = text.parse::<BaseSetting>().unwrap_err().to_string();
            assert!(error.contains("is not a base image"), "{error}");
        }
    }
}
