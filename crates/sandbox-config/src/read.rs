//! From a document's value to a setting's type: one function each, pure.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_model::{AgentName, ByteSize, NetworkProfile, parse_duration};

use crate::base::ImageBase;
use crate::error::Refusal;
use crate::suggest::closest;
use crate::tree::{Node, Tree};
use crate::words::Word;

/// What relative paths and `~` mean in one source of settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folders {
    /// The folder of the file that is read; `None` for variables and flags.
    pub base: Option<PathBuf>,
    /// The user's home.
    pub home: Option<PathBuf>,
}

impl Folders {
    /// For variables and flags, where these variables are set.
    pub fn of(variables: &[(String, String)]) -> Self {
        let home =
            variables.iter().rev().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        Self { base: None, home: home.filter(|home| home.is_absolute()) }
    }

    /// Absolute: `/…`, `~/…`, or relative to the file's folder.
    pub fn path(&self, text: &str, span: &Range<usize>) -> Result<PathBuf, Refusal> {
        let refuse = |why: &str| Refusal::new(span.clone(), format!("`{text}` {why}"));
        if text.is_empty() {
            return Err(refuse("is not a path"));
        }
        if let Some(rest) = text.strip_prefix('~') {
            if !rest.is_empty() && !rest.starts_with('/') {
                return Err(refuse("names another user's home").help("write the whole path"));
            }
            let home =
                self.home.as_ref().ok_or_else(|| refuse("needs HOME to be set to an absolute path"))?;
            return Ok(home.join(rest.trim_start_matches('/')));
        }
        match &self.base {
            _ if Path::new(text).is_absolute() => Ok(text.into()),
            Some(base) => Ok(base.join(text)),
            None => Err(refuse("is relative").help("write an absolute path, or one that starts with ~/")),
        }
    }
}

fn expected(node: &Node, what: &str) -> Refusal {
    let message = match node.scalar() {
        Some(text) => format!("`{text}` is not {what}"),
        None => format!("expected {what}, found {}", node.kind()),
    };
    Refusal::new(node.span.clone(), message)
}

/// A boolean, or a word for one in any case: YAML and variables have several.
pub fn boolean(node: &Node, _: &Folders) -> Result<bool, Refusal> {
    match &node.tree {
        Tree::Bool(value) => Ok(*value),
        Tree::Text(text) | Tree::Number(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err(expected(node, "true or false")),
        },
        _ => Err(expected(node, "true or false")),
    }
}

/// A processor count; 0 is all of the host's.
pub fn cpus(node: &Node, _: &Folders) -> Result<u8, Refusal> {
    let what = "a number of processors from 0 (all) to 255";
    node.scalar().and_then(|text| text.trim().parse().ok()).ok_or_else(|| expected(node, what))
}

/// A number of retries; 0 is the built-in number.
pub fn retries(node: &Node, _: &Folders) -> Result<u32, Refusal> {
    let count: u32 = node
        .scalar()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| expected(node, "a whole number from 0"))?;
    Ok(if count == 0 { crate::settings::RETRIES } else { count })
}

/// A size as [`ByteSize`] reads it; a bare number is MiB.
pub fn size(node: &Node, _: &Folders) -> Result<ByteSize, Refusal> {
    let text = node.scalar().ok_or_else(|| expected(node, "a size such as 512M or 4G"))?;
    text.parse()
        .map_err(|error: sandbox_model::InvalidSize| Refusal::new(node.span.clone(), error.to_string()))
}

/// Empty is the runtime's own size.
pub fn optional_size(node: &Node, folders: &Folders) -> Result<Option<ByteSize>, Refusal> {
    if node.scalar().is_some_and(|text| text.trim().is_empty()) {
        Ok(None)
    } else {
        size(node, folders).map(Some)
    }
}

/// A duration of more than nothing, as [`parse_duration`] reads it.
pub fn duration(node: &Node, _: &Folders) -> Result<Duration, Refusal> {
    let refuse = |message: String| Err(Refusal::new(node.span.clone(), message));
    let Some(text) = node.scalar() else { return Err(expected(node, "a duration such as 10s or 7d")) };
    match parse_duration(text) {
        Ok(Duration::ZERO) => refuse(format!("`{text}` is too short: it must be more than nothing")),
        Ok(duration) => Ok(duration),
        Err(error) => refuse(error.to_string()),
    }
}

/// How often newer versions are looked for.
pub fn interval(node: &Node, folders: &Folders) -> Result<Duration, Refusal> {
    let interval = duration(node, folders)?;
    if interval < Duration::from_hours(1) {
        return Err(Refusal::new(node.span.clone(), "shorter than an hour").help("the least is 1h"));
    }
    Ok(interval)
}

/// One of the words of `T`, in any case; else an error that lists them and names the closest.
pub fn word<T: Word>(node: &Node, _: &Folders) -> Result<T, Refusal> {
    let text = match &node.tree {
        // YAML and JSON writers reach for booleans where the words are `on` and `off`.
        Tree::Bool(true) => "on",
        Tree::Bool(false) => "off",
        _ => node.scalar().ok_or_else(|| expected(node, "a word"))?.trim(),
    };
    let words = T::WORDS.iter().map(|(word, _)| *word);
    let found = T::WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, value)| *value);
    found.ok_or_else(|| not_one_of(node, text, words))
}

/// An agent that this program knows.
pub fn agent(node: &Node, _: &Folders) -> Result<AgentName, Refusal> {
    let text = node.scalar().ok_or_else(|| expected(node, "the name of an agent"))?;
    let found = sandbox_agents::named(text.trim()).map(|profile| profile.name);
    found.map_err(|_| not_one_of(node, text, sandbox_agents::names()))
}

/// One of the four profiles.
pub fn profile(node: &Node, _: &Folders) -> Result<NetworkProfile, Refusal> {
    let text = node.scalar().ok_or_else(|| expected(node, "a network profile"))?;
    let words = NetworkProfile::ALL.into_iter().map(NetworkProfile::as_str);
    text.trim().parse().map_err(|_| not_one_of(node, text, words))
}

fn not_one_of(node: &Node, text: &str, words: impl Iterator<Item = &'static str> + Clone) -> Refusal {
    let all: Vec<&str> = words.clone().collect();
    let refusal = Refusal::new(node.span.clone(), format!("`{text}` is not one of {}", all.join(", ")));
    match closest(text, words) {
        Some(word) => refusal.help(format!("did you mean `{word}`?")),
        None => refusal,
    }
}

/// The items of a list, or of a text split at commas: each trimmed, with its place.
pub(crate) fn items_of(node: &Node) -> Result<Vec<(String, Range<usize>)>, Refusal> {
    match &node.tree {
        Tree::List(items) => items
            .iter()
            .map(|item| match item.scalar() {
                Some(text) => Ok((text.trim().to_owned(), item.span.clone())),
                None => Err(expected(item, "a text")),
            })
            .collect(),
        Tree::Text(text) if text.trim().is_empty() => Ok(Vec::new()),
        Tree::Text(text) | Tree::Number(text) => {
            Ok(text.split(',').map(|item| (item.trim().to_owned(), node.span.clone())).collect())
        }
        _ => Err(expected(node, "a list of texts")),
    }
}

/// A list of texts; empty ones are left out.
pub fn texts(node: &Node, _: &Folders) -> Result<Vec<String>, Refusal> {
    Ok(items_of(node)?.into_iter().map(|(text, _)| text).filter(|text| !text.is_empty()).collect())
}

/// A file or folder of the host; empty is none.
pub fn path(node: &Node, folders: &Folders) -> Result<Option<PathBuf>, Refusal> {
    let text = node.scalar().ok_or_else(|| expected(node, "a path"))?;
    if text.is_empty() { Ok(None) } else { folders.path(text, &node.span).map(Some) }
}

/// A folder, or the address of one; over a network only encrypted.
pub fn release_source(node: &Node, folders: &Folders) -> Result<Option<String>, Refusal> {
    let text = node.scalar().ok_or_else(|| expected(node, "a folder or an https address"))?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if text.starts_with("https://") {
        return Ok(Some(text.trim_end_matches('/').into()));
    }
    if text.contains("://") {
        let refusal =
            Refusal::new(node.span.clone(), format!("`{text}` is neither a folder nor an https address"));
        return Err(refusal.help("write https://… or the path of a folder"));
    }
    let path = folders.path(text, &node.span)?;
    let path = path.into_os_string().into_string();
    path.map(Some).map_err(|_| Refusal::new(node.span.clone(), "the path is not UTF-8".to_string()))
}

/// What an image may be built on.
pub fn image_base(node: &Node, _: &Folders) -> Result<ImageBase, Refusal> {
    let text = node.scalar().ok_or_else(|| expected(node, "an image"))?;
    text.trim().parse().map_err(|reason: String| {
        Refusal::new(node.span.clone(), reason)
            .help("write auto, an image such as debian:trixie-slim, or bootstrap:trixie")
    })
}
