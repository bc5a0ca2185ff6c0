//! The one place where typed errors become words, hints and exit codes.

mod hints;
mod render;

pub use hints::POWER_OFF;

use std::error::Error;

use crate::exit::Exit;

/// What a command ends with when it fails. Made from typed errors by [`hints`], or here and now by the
/// command for its own refusals.
#[derive(Debug)]
pub struct CommandError {
    /// A fact, without a full stop.
    pub message: String,
    pub causes: Vec<String>,
    /// The next thing to type or to look at, most useful first.
    pub hints: Vec<String>,
    /// Lines of a log or of a file that belong to the error; shown as they are, indented.
    pub excerpt: Option<String>,
    pub exit: Exit,
    /// Whoever read our output went away: there is nobody to tell.
    pub silent: bool,
}

impl CommandError {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            excerpt: None,
            exit: Exit::FAILURE,
            silent: false,
        }
    }

    /// A command line that cannot be meant.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::USAGE, ..Self::new(message) }
    }

    /// An error with the chain of its sources, without repeating what a message already contains.
    pub fn from_chain(error: &(dyn Error + 'static)) -> Self {
        let mut new = Self::new(error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !new.causes.last().unwrap_or(&new.message).contains(&text) {
                new.causes.push(text);
            }
            source = cause.source();
        }
        new
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// For a command whose own failure it is: nobody is told to type it again.
    #[must_use]
    pub fn without_hint(mut self, hint: &str) -> Self {
        self.hints.retain(|other| other != hint);
        self
    }

    #[must_use]
    pub fn excerpt(mut self, lines: &str) -> Self {
        if !lines.trim().is_empty() {
            self.excerpt = Some(lines.into());
        }
        self
    }
}
