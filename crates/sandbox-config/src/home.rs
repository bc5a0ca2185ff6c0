use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::error::Refusal;
use crate::fields::{Fields, entries};
use crate::origin::Value;
use crate::read;
use crate::settings::Source;
use crate::tree::{Node, Tree};

/// A file or folder of the host that is copied into the guest's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeFile {
    /// Absolute, not resolved, and maybe not there.
    pub source: PathBuf,
    /// It is run in the guest after a boot, before the agent.
    pub startup: bool,
    /// It is run as root.
    pub root: bool,
}

impl fmt::Display for HomeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hook = match (self.startup, self.root) {
            (false, _) => "",
            (true, false) => " (run at startup)",
            (true, true) => " (run at startup as root)",
        };
        write!(f, "{}{hook}", self.source.display())
    }
}

/// Adds the entries of one layer; an entry of the same target in a lower layer is replaced.
pub(crate) fn assign(
    files: &mut BTreeMap<String, Value<HomeFile>>,
    node: &Node,
    source: &Source<'_>,
) -> Result<(), Refusal> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for entry in entries(node, "`home`", "a map from a path in the guest's home to a file of the host")? {
        let refuse = |message: String| Refusal::new(entry.key_span.clone(), message);
        let target = target(&entry.key).map_err(|reason| refuse(format!("`{}` {reason}", entry.key)))?;
        if let Some(other) = seen.insert(target.clone(), entry.key.clone()) {
            return Err(refuse(format!("`{}` is the same place as `{other}`", entry.key)));
        }
        let value = file(&target, &entry.value, source)?;
        files.insert(target, Value { value, origin: source.origin(entry.key_span.start) });
    }
    Ok(())
}

fn file(target: &str, node: &Node, source: &Source<'_>) -> Result<HomeFile, Refusal> {
    let mut file = HomeFile { source: PathBuf::new(), startup: false, root: false };
    let path = if let Tree::Map(_) = &node.tree {
        let mut fields = Fields::new(node, &["source", "hook", "root"])?;
        if let Some(hook) = fields.take("hook") {
            if hook.scalar() != Some("startup") {
                return Err(Refusal::new(hook.span.clone(), "the only hook is `startup`"));
            }
            file.startup = true;
        }
        file.root =
            fields.take("root").map(|node| read::boolean(node, source.folders)).transpose()?.unwrap_or(false);
        fields.take("source")
    } else {
        Some(node)
    };
    // Nothing at all is the file of the same name in the host's home.
    let same = format!("~/{target}");
    let path = path.filter(|path| path.tree != Tree::Null);
    let text = path.map_or(Some(same.as_str()), Node::scalar);
    let span = &path.unwrap_or(node).span;
    let Some(text) = text else {
        let found = path.map_or("nothing", Node::kind);
        return Err(Refusal::new(span.clone(), format!("expected a file of the host, found {found}")));
    };
    file.source = source.folders.path(if text.is_empty() { &same } else { text }, span)?;
    Ok(file)
}

/// The cleaned path, relative to the guest's home and inside it.
fn target(text: &str) -> Result<String, &'static str> {
    if text.starts_with('/') {
        return Err("is absolute; write it relative to the guest's home");
    }
    if text.starts_with('~') {
        return Err("starts with `~`; write it relative to the guest's home");
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err("must not contain `..`");
    }
    if parts.is_empty() { Err("is not a path") } else { Ok(parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, cleaned) in
            [(".gitconfig", ".gitconfig"), ("./.config//x/", ".config/x"), ("a..b", "a..b")]
        {
            assert_eq!(target(text).as_deref(), Ok(cleaned), "{text}");
        }
        for text in ["", ".", "/etc/passwd", "~/.gitconfig", "~root/x", "../x", "a/../../x", "a/.."] {
            assert!(target(text).is_err(), "{text}");
        }
    }
}
