use std::fmt;
use std::path::PathBuf;

/// Where a setting's value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// `line` counts from 1.
    File {
        path: PathBuf,
        line: usize,
    },
    Env {
        variable: String,
    },
    Flag {
        name: &'static str,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::File { path, line } => f.pad(&format!("{}:{line}", path.display())),
            Self::Env { variable } => f.pad(&format!("${variable}")),
            Self::Flag { name } => f.pad(name),
        }
    }
}

/// A setting that knows where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Value<T> {
    pub const fn default(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }
}
