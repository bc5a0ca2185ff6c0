use std::marker::PhantomData;
use std::ops::Range;

use serde::de::{self, Deserialize, MapAccess, SeqAccess, Visitor};

/// One value of a document, in any format, with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub tree: Tree,
    /// In bytes of the text; empty for values that stand in no file.
    pub span: Range<usize>,
}

/// A value as JSON5 and YAML have it, before it is known which setting it is of.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    Null,
    Bool(bool),
    /// As it is best written back.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Pair>),
}

/// A key and its value, in the document's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub key: String,
    pub key_span: Range<usize>,
    pub value: Node,
}

impl Node {
    /// A value that was typed or exported rather than written in a file.
    pub fn typed(text: &str) -> Self {
        Self { tree: Tree::Text(text.into()), span: 0..0 }
    }

    /// How a person would name this kind of value.
    pub fn kind(&self) -> &'static str {
        match self.tree {
            Tree::Null => "nothing",
            Tree::Bool(_) => "a boolean",
            Tree::Number(_) => "a number",
            Tree::Text(_) => "a text",
            Tree::List(_) => "a list",
            Tree::Map(_) => "a map",
        }
    }

    /// The words of a scalar that is neither null nor boolean.
    pub fn scalar(&self) -> Option<&str> {
        match &self.tree {
            Tree::Number(text) | Tree::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Builds a [`Tree`] from any self-describing format. `K` and `N` read a key and a value, each in the
/// format's own way of telling places.
pub struct TreeVisitor<K, N>(PhantomData<(K, N)>);

impl<K, N> Default for TreeVisitor<K, N> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// A key as a format reads it.
pub struct Key {
    /// The key, unquoted.
    pub text: String,
    /// Where it stands in the text, in bytes.
    pub span: Range<usize>,
}

impl<'de, K, N> Visitor<'de> for TreeVisitor<K, N>
where
    K: Deserialize<'de> + Into<Key>,
    N: Deserialize<'de> + Into<Node>,
{
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element::<N>()? {
            list.push(item.into());
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut pairs = Vec::new();
        while let Some(key) = map.next_key::<K>()? {
            let key = key.into();
            let value = map.next_value::<N>()?.into();
            pairs.push(Pair { key: key.text, key_span: key.span, value });
        }
        Ok(Tree::Map(pairs))
    }
}
