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

/// What is wrong in words of a person who writes settings, where the parser's are those of its own rules:
/// what its message has, and what that means.
const REASONS: [(&str, &str); 11] = [
    ("duplicate mapping key", "the same name stands there twice"),
    (
        "mapping values are not allowed",
        "a second `:` in one line, or a line that is indented too far; text with a colon in it needs quotes",
    ),
    ("quote", "a quote is not closed"),
    ("tab", "a tab cannot indent; use spaces"),
    ("flow sequence", "a list in `[ ]` is not closed, or lacks a comma"),
    ("flow mapping", "a section in `{ }` is not closed, or lacks a comma"),
    ("unclosed bracket", "a bracket is not closed"),
    ("unknown anchor", "`*` stands for a value that has no name; text that begins with it needs quotes"),
    ("simple key", "a name needs a colon behind it, as in `memory: 4G`"),
    ("multiple", "the file has more than one document; leave out `---`"),
    ("indent", "this line does not line up with those above it"),
];

/// Every other one of the parser's words means that a line is not where it belongs.
const ELSE: &str = "this line does not fit to those above it; look at its indentation, colons and quotes";

fn reason(error: &serde_saphyr::Error) -> &'static str {
    let message = error.to_string().to_lowercase();
    REASONS.iter().find(|(words, _)| message.contains(words)).map_or(ELSE, |(_, meaning)| meaning)
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
