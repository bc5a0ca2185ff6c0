use std::ops::Range;

use serde::de::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

use crate::error::Refusal;
use crate::tree::{Key, Node, Tree, TreeVisitor};

/// Reads a YAML document. An empty one is [`Tree::Null`].
pub fn parse(text: &str) -> Result<Node, Refusal> {
    // `off`, `no` and `yes` stay words: some settings have `off` among their values.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    match serde_saphyr::from_str_with_options::<Option<Yaml>>(text, options) {
        Ok(node) => Ok(node.map_or(Node { tree: Tree::Null, span: 0..0 }, Into::into)),
        Err(error) => {
            let span = error.location().map_or(text.len()..text.len(), |location| place(text, &location));
            Err(Refusal::new(span, format!("not valid YAML: {}", reason(&error))))
        }
    }
}

/// The library's message without the place, which the caller tells in its own way.
fn reason(error: &serde_saphyr::Error) -> String {
    let message = error.to_string();
    let line = message.lines().next().unwrap_or_default();
    let cut = line.find(" at line ").or_else(|| line.find(" (line "));
    cut.map_or(line, |cut| &line[..cut]).trim_start_matches("error: ").to_owned()
}

/// Not every error of the parser has an offset, but each has a line.
fn place(text: &str, location: &Location) -> Range<usize> {
    if location.span().byte_offset().is_some() {
        return span(location);
    }
    let number = |count: u64| usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
    let start: usize = text.split_inclusive('\n').take(number(location.line())).map(str::len).sum();
    let line = &text[start..];
    let at = start + line.char_indices().nth(number(location.column())).map_or(line.len(), |(at, _)| at);
    at..at
}

struct Yaml(Spanned<Contents>);
struct Contents(Tree);
struct YamlKey(Spanned<String>);

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Contents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor::<YamlKey, Yaml>::default()).map(Self)
    }
}

impl<'de> Deserialize<'de> for YamlKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl From<Yaml> for Node {
    fn from(yaml: Yaml) -> Self {
        Self { span: span(&yaml.0.referenced), tree: yaml.0.value.0 }
    }
}

impl From<YamlKey> for Key {
    fn from(key: YamlKey) -> Self {
        Self { span: span(&key.0.referenced), text: key.0.value }
    }
}

fn span(location: &Location) -> Range<usize> {
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let start = number(location.span().byte_offset().unwrap_or_default());
    start..start.saturating_add(number(location.span().byte_len().unwrap_or_default()))
}
