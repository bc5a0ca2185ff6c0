use std::ops::Range;

use serde::de::{Deserialize, Deserializer};

use crate::error::Refusal;
use crate::tokens;
use crate::tree::{Key, Node, Tree, TreeVisitor};

/// Deeper than any configuration goes, and far from the end of the stack.
const DEEPEST: usize = 32;

/// Reads JSON, JSON with comments, or JSON5. An empty document is [`Tree::Null`].
pub fn parse(text: &str) -> Result<Node, Refusal> {
    let tokens = tokens::scan(text);
    if tokens.spans.is_empty() {
        return Ok(Node { tree: Tree::Null, span: 0..0 });
    }
    if let Some(at) = tokens.deeper_than(DEEPEST) {
        return Err(Refusal::new(at..at + 1, format!("nested more than {DEEPEST} deep")));
    }
    let Json(mut node) = json5::from_str(text).map_err(|error| {
        let at = error.position().map_or(text.len(), |place| offset(text, place.line, place.column));
        let reason = error.code().map_or_else(|| error.to_string(), |code| code.to_string());
        Refusal::new(at..at, format!("not valid JSON: {reason}"))
    })?;
    place(&mut node, &mut tokens.spans.into_iter());
    Ok(node)
}

/// Gives every key and value its place: the parser reads them in the order in which they are written, and
/// so does the scanner.
fn place(node: &mut Node, spans: &mut impl Iterator<Item = Range<usize>>) {
    node.span = spans.next().unwrap_or(0..0);
    match &mut node.tree {
        Tree::List(items) => items.iter_mut().for_each(|item| place(item, spans)),
        Tree::Map(pairs) => {
            for pair in pairs {
                pair.key_span = spans.next().unwrap_or(0..0);
                place(&mut pair.value, spans);
            }
        }
        _ => {}
    }
}

/// From the parser's line and column, both counted from zero in characters.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
}

struct Json(Node);
struct JsonKey(String);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tree = deserializer.deserialize_any(TreeVisitor::<JsonKey, Self>::default())?;
        Ok(Self(Node { tree, span: 0..0 }))
    }
}

impl<'de> Deserialize<'de> for JsonKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl From<Json> for Node {
    fn from(json: Json) -> Self {
        json.0
    }
}

impl From<JsonKey> for Key {
    fn from(key: JsonKey) -> Self {
        Self { text: key.0, span: 0..0 }
    }
}
