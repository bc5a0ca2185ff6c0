use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use unicode_width::UnicodeWidthStr;

use crate::plain::plain;

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    File(Box<FileError>),

    #[error("{variable}: {message}")]
    Variable { variable: String, message: String, help: Option<String> },

    #[error("{flag}: {message}")]
    Flag { flag: &'static str, message: String, help: Option<String> },

    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },

    /// A file of the project's that whoever works in the sandbox made a link.
    #[error("{} leads out of the checkout, to {}", path.display(), target.display())]
    Escape { path: PathBuf, target: PathBuf },
}

impl ConfigError {
    /// What to write instead, where that is known.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::File(error) => error.help.as_deref(),
            Self::Variable { help, .. } | Self::Flag { help, .. } => help.as_deref(),
            Self::Unreadable { .. } => None,
            Self::Escape { .. } => Some(
                "put a copy in its place: a link of the project's may lead only to a file of the project",
            ),
        }
    }
}

/// Something wrong at one place of a file.
///
/// Its text is one line, `FILE:LINE:COLUMN: message`; [`FileError::excerpt`] shows the line itself. Neither
/// passes on control characters of the file.
#[derive(Debug)]
pub struct FileError {
    /// The one that a person has to change.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The line before the offending one, where there is one.
    pub before: Option<String>,
    /// The offending line, without its end.
    pub text: String,
    /// Which part of `text` is meant, in bytes; empty where it is only a place.
    pub mark: Range<usize>,
    /// What is wrong, as the end of a line.
    pub message: String,
    /// What to write instead, where that is known.
    pub help: Option<String>,
}

impl FileError {
    pub(crate) fn new(file: &Path, source: &str, refusal: Refusal) -> Self {
        let at = floor(source, refusal.span.start);
        let (line, column) = position(source, at);
        let start = source[..at].rfind('\n').map_or(0, |end| end + 1);
        // A mark never goes beyond its own line.
        let whole = source[start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let end = floor(source, refusal.span.end.clamp(at, at.max(start + whole.len())));
        let hidden = hide_passwords(source);
        let source = hidden.as_str();
        let whole = source[start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let cut = |range: Range<usize>| plain(source.get(range).unwrap_or_default());
        let (head, marked) = (cut(start..at), cut(at..end));
        Self {
            file: file.into(),
            line,
            column,
            before: (line > 1).then(|| plain(source[..start].lines().next_back().unwrap_or_default())),
            mark: head.len()..head.len() + marked.len(),
            text: plain(whole),
            message: plain(&refusal.message),
            help: refusal.help,
        }
    }

    /// Keeps the place and forgets the lines: they may hold what nobody should see.
    pub(crate) fn without_text(self) -> Self {
        Self { before: None, text: String::new(), mark: 0..0, ..self }
    }

    /// The offending line with the one before it and a mark under the place, without colour;
    /// nothing where the lines may hold a secret.
    pub fn excerpt(&self) -> String {
        if self.text.is_empty() && self.before.is_none() {
            return String::new();
        }
        let margin = self.line.to_string().len();
        let row =
            |number: String, text: &str| format!("{number:>margin$} │ {text}").trim_end().to_owned() + "\n";
        let indent = self.text.get(..self.mark.start).unwrap_or(&self.text).width();
        let marks = self.text.get(self.mark.clone()).unwrap_or_default().width().max(1);
        let mark = " ".repeat(indent) + &"^".repeat(marks);
        let before =
            self.before.as_deref().map(|text| row((self.line - 1).to_string(), text)).unwrap_or_default();
        before + &row(self.line.to_string(), &self.text) + &row(String::new(), &mark)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file.display(), self.line, self.column, self.message)
    }
}

impl std::error::Error for FileError {}

/// What is wrong with a value, before it is known where it came from.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// In the text that the value was read from; empty for a value from elsewhere.
    pub span: Range<usize>,
    pub message: String,
    pub help: Option<String>,
}

impl Refusal {
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// What stands as `USER:PASSWORD@` in an address, starred out: each byte stays where it is.
fn hide_passwords(source: &str) -> String {
    let mut shown = source.to_string();
    for (at, _) in source.match_indices('@') {
        let begins = |c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | ',' | '[' | '{');
        let start = source[..at].rfind(begins).map_or(0, |found| found + 1);
        if source.get(start..at).is_some_and(|userinfo| userinfo.contains(':')) {
            shown.replace_range(start..at, &"*".repeat(at - start));
        }
    }
    shown
}

/// Line and column of a byte, both from 1.
pub(crate) fn position(source: &str, offset: usize) -> (usize, usize) {
    let before = &source[..floor(source, offset)];
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// The nearest character boundary at or before `offset`.
fn floor(source: &str, offset: usize) -> usize {
    let offset = offset.min(source.len());
    (0..=offset).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0)
}
