use crate::error::Refusal;
use crate::suggest::closest;
use crate::tree::{Node, Pair, Tree};

/// The pairs of a map whose keys are free; nothing at all is an empty map.
pub(crate) fn entries<'a>(node: &'a Node, name: &str, what: &str) -> Result<&'a [Pair], Refusal> {
    match &node.tree {
        Tree::Map(pairs) => Ok(pairs),
        Tree::Null => Ok(&[]),
        _ => Err(Refusal::new(
            node.span.clone(),
            format!("expected {name} to be {what}, found {}", node.kind()),
        )),
    }
}

/// The pairs of a map with fixed keys.
pub(crate) struct Fields<'a> {
    node: &'a Node,
    pairs: &'a [Pair],
}

impl<'a> Fields<'a> {
    /// Refuses keys that are not `known` and keys that stand there twice.
    pub fn new(node: &'a Node, known: &[&'static str]) -> Result<Self, Refusal> {
        let Tree::Map(pairs) = &node.tree else {
            return Err(Refusal::new(node.span.clone(), format!("expected a map, found {}", node.kind())));
        };
        unique(pairs)?;
        match pairs.iter().find(|pair| !known.contains(&pair.key.as_str())) {
            Some(pair) => Err(unknown(pair, "", known.iter().copied())),
            None => Ok(Self { node, pairs }),
        }
    }

    pub fn take(&mut self, key: &str) -> Option<&'a Node> {
        self.pairs.iter().find(|pair| pair.key == key).map(|pair| &pair.value)
    }

    pub fn require(&mut self, key: &str) -> Result<&'a Node, Refusal> {
        self.take(key).ok_or_else(|| Refusal::new(self.node.span.clone(), format!("`{key}` is missing")))
    }
}

/// No key stands there twice. YAML's parser sees to it itself; JSON's does not.
pub(crate) fn unique(pairs: &[Pair]) -> Result<(), Refusal> {
    for (count, pair) in pairs.iter().enumerate() {
        if pairs[..count].iter().any(|other| other.key == pair.key) {
            return Err(Refusal::new(pair.key_span.clone(), format!("`{}` stands here twice", pair.key)));
        }
    }
    Ok(())
}

/// A key that is none of `known`; `section` is what stands before it, with its dot.
pub(crate) fn unknown<'a>(
    pair: &Pair,
    section: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Refusal {
    let refusal = Refusal::new(pair.key_span.clone(), format!("unknown key `{section}{}`", pair.key));
    if let Some(near) = closest(&pair.key, known.clone()) {
        return refusal.help(format!("did you mean `{section}{near}`?"));
    }
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    known.dedup();
    refusal.help(format!("the keys here are {}", known.join(", ")))
}
