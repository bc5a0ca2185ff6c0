use std::fmt;
use std::path::PathBuf;

/// Where a setting's value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// `line` counts from 1.
    File {
        /// The settings file that sets it.
        path: PathBuf,
        /// Where the value begins.
        line: usize,
    },
    /// A variable of the program's own environment.
    Env {
        /// Its whole name, `AGENTS_SANDBOX_…`.
        variable: String,
    },
    /// Typed on the command line.
    Flag {
        /// With its dashes: `--cpus`.
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
    /// What holds, of all the layers that set it.
    pub value: T,
    /// The layer that it is from.
    pub origin: Origin,
}

impl<T> Value<T> {
    /// A value that is built in.
    pub const fn default(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }
}
