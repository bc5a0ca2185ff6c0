use std::fmt;
use std::str::FromStr;

use sandbox_model::ImageRef;

/// What runner images are built on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageBase {
    /// The built-in image from a registry; where none can be reached, a bootstrapped one.
    Auto,
    /// This image.
    Reference(ImageRef),
    /// Made from the machine's own Debian or Ubuntu mirror.
    Bootstrap {
        /// A release of the distribution, such as `trixie`.
        suite: String,
    },
}

impl FromStr for ImageBase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let Some(suite) = text.strip_prefix("bootstrap:") else {
            return text
                .parse()
                .map(Self::Reference)
                .map_err(|error: sandbox_model::InvalidName| error.to_string());
        };
        // The suite becomes an argument of another program.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if suite.starts_with(|c: char| c.is_ascii_lowercase()) && suite.chars().all(plain) {
            Ok(Self::Bootstrap { suite: suite.into() })
        } else {
            Err(format!("`{suite}` is not the name of a release"))
        }
    }
}

impl fmt::Display for ImageBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Reference(image) => image.fmt(f),
            Self::Bootstrap { suite } => f.pad(&format!("bootstrap:{suite}")),
        }
    }
}
