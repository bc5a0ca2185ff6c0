//! Adding one item to a list of the settings, where a person wrote the file: comments, order and spelling stay.
//!
//! The parsers say where in the text the list is. What comes out is read again and must say exactly what the old
//! text said and the new item; where it does not, nothing is written.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::ConfigError;
use crate::file::{FILE_NAMES, Whose, settings_file};
use crate::tree::{Node, Pair, Tree};
use crate::{json, yaml};

/// A settings file with one item more. Nothing is written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file to write: the one that is there, or `config.yaml` in the folder.
    pub path: PathBuf,
    /// The whole new text; `None` where the list has the item already.
    pub text: Option<String>,
}

/// Why an item cannot be added to a list. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{path} is not written in a way that can be changed safely", path = path.display())]
    Unclear { path: PathBuf },
}

/// Adds `item` to the list `section.key` of the settings file in `folder`; a folder without one gets one.
pub fn add_to_list(folder: &Path, section: &str, key: &str, item: &str) -> Result<Edit, EditError> {
    let (path, text) =
        settings_file(folder, Whose::User)?.unwrap_or_else(|| (folder.join(FILE_NAMES[0]), String::new()));
    let format = if path.extension().is_some_and(|it| it == "yaml" || it == "yml") {
        Format::Yaml
    } else {
        Format::Json
    };
    let unclear = || EditError::Unclear { path: path.clone() };
    let document = format.parse(&text).ok_or_else(unclear)?;
    let Some(old) = items(&document, section, key) else { return Err(unclear()) };
    if old.iter().any(|known| known == item) {
        return Ok(Edit { path, text: None });
    }
    let new = edited(&text, &document, format, (section, key), item).ok_or_else(unclear)?;
    let read = format.parse(&new).ok_or_else(unclear)?;
    let mut found = items(&read, section, key).ok_or_else(unclear)?;
    let others = |node: &Node| rest(node, section, key);
    found.retain(|known| known != item);
    if found != old || others(&read) != others(&document) {
        return Err(unclear());
    }
    Ok(Edit { path, text: Some(new) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Yaml,
    Json,
}

impl Format {
    fn parse(self, text: &str) -> Option<Node> {
        match self {
            Self::Yaml => yaml::parse(text).ok(),
            Self::Json => json::parse(text).ok(),
        }
    }
}

fn edited(
    text: &str,
    document: &Node,
    format: Format,
    (section, key): (&str, &str),
    item: &str,
) -> Option<String> {
    let quoted = serde_json::to_string(item).ok()?;
    let insert = |at: usize, what: &str| Some(format!("{}{what}{}", text.get(..at)?, text.get(at..)?));
    let Some(outer) = pair(document, section) else {
        let block = match format {
            Format::Yaml if matches!(document.tree, Tree::Null) || !starts(text, &document.span, '{') => {
                let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                return Some(format!("{text}{gap}{section}:\n  {key}:\n    - {quoted}\n"));
            }
            _ => format!("{}: {{{}: [{quoted}]}}", name(section), name(key)),
        };
        return match document.tree {
            Tree::Null => Some(format!("{text}{{{block}}}\n")),
            _ => into_flow(text, &document.span, is_empty(document), &block),
        };
    };
    if outer.value.tree == Tree::Null {
        return (format == Format::Yaml)
            .then(|| line_end(text, outer.key_span.start))
            .and_then(|at| insert(at, &format!("\n  {key}:\n    - {quoted}")));
    }
    let Some(inner) = pair(&outer.value, key) else {
        if format == Format::Json || starts(text, &outer.value.span, '{') {
            let block = format!("{}: [{quoted}]", name(key));
            return into_flow(text, &outer.value.span, is_empty(&outer.value), &block);
        }
        let Tree::Map(pairs) = &outer.value.tree else { return None };
        let (start, indent) = line(text, pairs.first()?.key_span.start)?;
        return insert(start, &format!("{indent}{key}:\n{indent}  - {quoted}\n"));
    };
    match &inner.value.tree {
        Tree::Null if format == Format::Yaml => {
            let (_, indent) = line(text, inner.key_span.start)?;
            insert(line_end(text, inner.key_span.start), &format!("\n{indent}  - {quoted}"))
        }
        Tree::List(list) if starts(text, &inner.value.span, '[') => {
            into_flow(text, &inner.value.span, list.is_empty(), &quoted)
        }
        Tree::List(list) if format == Format::Yaml => {
            let (start, before) = dash(text, list.first()?.span.start)?;
            insert(start, &format!("{before}{quoted}\n"))
        }
        Tree::Text(_) => {
            let all: Vec<String> = items(document, section, key)?.into_iter().chain([item.into()]).collect();
            let list = serde_json::to_string(&all).ok()?.replace("\",\"", "\", \"");
            let span = &inner.value.span;
            Some(format!("{}{list}{}", text.get(..span.start)?, text.get(span.end..)?))
        }
        _ => None,
    }
}

fn name(key: &str) -> String {
    format!("\"{key}\"")
}

fn is_empty(node: &Node) -> bool {
    matches!(&node.tree, Tree::Map(pairs) if pairs.is_empty())
}

fn pair<'a>(node: &'a Node, key: &str) -> Option<&'a Pair> {
    let Tree::Map(pairs) = &node.tree else { return None };
    pairs.iter().find(|pair| pair.key == key)
}

fn starts(text: &str, span: &Range<usize>, with: char) -> bool {
    text.get(span.start..).is_some_and(|rest| rest.starts_with(with))
}

/// At the beginning of `[…]` or `{…}`.
fn into_flow(text: &str, span: &Range<usize>, empty: bool, what: &str) -> Option<String> {
    let at = span.start + 1;
    let comma = if empty { "" } else { ", " };
    Some(format!("{}{what}{comma}{}", text.get(..at)?, text.get(at..)?))
}

/// Where the line around `at` begins, and its indentation, if nothing else stands before `at`.
fn line(text: &str, at: usize) -> Option<(usize, &str)> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let before = &text[start..at];
    before.trim().is_empty().then_some((start, before))
}

/// Where the line of a list's item begins, and what stands before the item: blanks, a dash, blanks.
fn dash(text: &str, at: usize) -> Option<(usize, &str)> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let before = &text[start..at];
    (before.trim() == "-").then_some((start, before))
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end)
}

/// The list's items; `None` where it is none.
fn items(document: &Node, section: &str, key: &str) -> Option<Vec<String>> {
    let Some(found) = pair(document, section).and_then(|outer| pair(&outer.value, key)) else {
        return Some(Vec::new());
    };
    if found.value.tree == Tree::Null {
        return Some(Vec::new());
    }
    let items = crate::read::items_of(&found.value).ok()?;
    Some(items.into_iter().map(|(item, _)| item).filter(|item| !item.is_empty()).collect())
}

/// Everything but the list, without places.
fn rest(node: &Node, section: &str, key: &str) -> Vec<String> {
    let mut all = Vec::new();
    walk(node, "", &mut all);
    let own = format!("/{section}/{key}");
    all.retain(|(path, _)| {
        *path != own && !path.starts_with(&format!("{own}/")) && *path != format!("/{section}")
    });
    all.into_iter().map(|(path, value)| format!("{path}={value}")).filter(|line| line != "=").collect()
}

fn walk(node: &Node, path: &str, all: &mut Vec<(String, String)>) {
    match &node.tree {
        Tree::Map(pairs) => {
            for pair in pairs {
                walk(&pair.value, &format!("{path}/{}", pair.key), all);
            }
        }
        Tree::List(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{path}/{index}"), all);
            }
        }
        Tree::Null => all.push((path.into(), String::new())),
        other => all.push((path.into(), format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(file: &str, text: &str) -> Result<Option<String>, EditError> {
        let dir = tempfile::tempdir().unwrap();
        if !text.is_empty() {
            std::fs::write(dir.path().join(file), text).unwrap();
        }
        let edit = add_to_list(dir.path(), "network", "egress-allow", ".new.example:443")?;
        assert_eq!(edit.path, dir.path().join(file));
        Ok(edit.text)
    }

    #[test]
    fn comments_and_order_stay() {
        let new = "\".new.example:443\"";
        for (old, expected) in [
            ("", format!("network:\n  egress-allow:\n    - {new}\n")),
            ("# mine\n", format!("# mine\nnetwork:\n  egress-allow:\n    - {new}\n")),
            ("cpus: 2 # two", format!("cpus: 2 # two\nnetwork:\n  egress-allow:\n    - {new}\n")),
            ("network: # net\ncpus: 2\n", format!("network: # net\n  egress-allow:\n    - {new}\ncpus: 2\n")),
            (
                "network:\n    # why\n    profile: none # no\n",
                format!("network:\n    # why\n    egress-allow:\n      - {new}\n    profile: none # no\n"),
            ),
            (
                "network:\n  egress-allow:\n  # first\n  - a.example # a\n  - b.example\ncpus: 1\n",
                format!(
                    "network:\n  egress-allow:\n  # first\n  - {new}\n  - a.example # a\n  - b.example\ncpus: 1\n"
                ),
            ),
            ("network:\n  egress-allow: # x\n", format!("network:\n  egress-allow: # x\n    - {new}\n")),
            (
                "network: {profile: none, egress-allow: ['a.example']} # y\n",
                format!("network: {{profile: none, egress-allow: [{new}, 'a.example']}} # y\n"),
            ),
            (
                "network: {profile: none}\n",
                format!("network: {{\"egress-allow\": [{new}], profile: none}}\n"),
            ),
            (
                "network:\n  egress-allow: a.example, b.example # z\n",
                format!("network:\n  egress-allow: [\"a.example\", \"b.example\", {new}] # z\n"),
            ),
            ("{cpus: 2}\n", format!("{{\"network\": {{\"egress-allow\": [{new}]}}, cpus: 2}}\n")),
        ] {
            assert_eq!(added("config.yaml", old).unwrap().as_deref(), Some(expected.as_str()), "{old}");
        }
        let json = added("config.jsonc", "{ // c\n  \"network\": {\"egress-allow\": []}\n}").unwrap();
        let expected = format!("{{ // c\n  \"network\": {{\"egress-allow\": [{new}]}}\n}}");
        assert_eq!(json.as_deref(), Some(expected.as_str()));
        let json = added("config.json", "{\"cpus\": 2}").unwrap();
        let expected = format!("{{\"network\": {{\"egress-allow\": [{new}]}}, \"cpus\": 2}}");
        assert_eq!(json.as_deref(), Some(expected.as_str()));
    }

    #[test]
    fn what_is_there_is_not_added_and_what_is_unclear_is_left_alone() {
        assert_eq!(added("config.yaml", "network: {egress-allow: [.new.example:443]}\n").unwrap(), None);
        for text in [
            "network: [\n",
            "network:\n  egress-allow: {a: b}\n",
            "x: &list [a]\nnetwork: {egress-allow: *list}\n",
        ] {
            let ended = added("config.yaml", text);
            assert!(matches!(ended, Err(EditError::Unclear { .. })), "{text}: {ended:?}");
        }
    }
}
