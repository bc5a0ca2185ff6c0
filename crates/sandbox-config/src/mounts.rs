use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;

use sandbox_model::{GUEST_HOME, GUEST_WORKSPACE};

use crate::error::Refusal;
use crate::fields::{Fields, entries};
use crate::links::{Followed, follow};
use crate::origin::Value;
use crate::read;
use crate::settings::Source;
use crate::tree::{Node, Tree};

/// A folder or a file of the host in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Absolute, and as it was written: not yet resolved, and maybe not there.
    pub source: PathBuf,
    /// The guest changes nothing in it.
    pub readonly: bool,
}

impl Mount {
    /// The folder or file itself, with every link resolved; whether it is missing is part of that. Fails when it is
    /// anything else.
    pub fn resolve(&self) -> io::Result<Followed> {
        let found = follow(&self.source)?;
        let fits = |kind: std::fs::Metadata| kind.is_dir() || kind.is_file();
        if found.missing || fits(found.place.symlink_metadata()?) {
            Ok(found)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a folder nor a file"))
        }
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.source.display(), if self.readonly { " (readonly)" } else { "" })
    }
}

/// Adds the entries of one layer; an entry of the same target in a lower layer is replaced.
pub(crate) fn assign(
    mounts: &mut BTreeMap<String, Value<Mount>>,
    node: &Node,
    source: &Source<'_>,
) -> Result<(), Refusal> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for entry in entries(node, "`mounts`", "a map from a path in the guest to a folder or file of the host")?
    {
        let refuse = |message: String| Refusal::new(entry.key_span.clone(), message);
        let target = target(&entry.key).map_err(|reason| refuse(format!("`{}` {reason}", entry.key)))?;
        if let Some(other) = seen.insert(target.clone(), entry.key.clone()) {
            return Err(refuse(format!("`{}` is the same place as `{other}`", entry.key)));
        }
        let value = mount(&entry.value, source)?;
        mounts.insert(target, Value { value, origin: source.origin(entry.key_span.start) });
    }
    Ok(())
}

fn mount(node: &Node, source: &Source<'_>) -> Result<Mount, Refusal> {
    let (path, readonly) = if let Tree::Map(_) = &node.tree {
        let mut fields = Fields::new(node, &["source", "readonly"])?;
        let path = fields.require("source")?;
        let readonly = fields.take("readonly").map(|node| read::boolean(node, source.folders)).transpose()?;
        (path, readonly.unwrap_or(false))
    } else {
        (node, false)
    };
    let Some(text) = path.scalar() else {
        return Err(Refusal::new(
            path.span.clone(),
            format!("expected a folder or file of the host, found {}", path.kind()),
        ));
    };
    if !text.starts_with(['/', '~']) {
        let refusal = Refusal::new(path.span.clone(), format!("`{text}` is relative"));
        return Err(refusal.help("write an absolute path, or one that starts with ~/"));
    }
    Ok(Mount { source: source.folders.path(text, &path.span)?, readonly })
}

/// Without one of these no guest starts, or its agent does not.
const SYSTEM: [&str; 12] = [
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt/agents-sandbox",
    "/sbin",
    "/usr/bin",
    "/usr/lib",
    "/usr/sbin",
    "/var/lib",
];
/// Filled by the guest's kernel, or empty at each boot.
const KERNEL: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// The cleaned path, where a folder may be mounted at all. The error is a predicate: `is not an absolute path`.
pub fn target(text: &str) -> Result<String, &'static str> {
    if !text.starts_with('/') {
        return Err("is not an absolute path");
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err("must not contain `..`");
    }
    let target = format!("/{}", parts.join("/"));
    let within = |inner: &str, outer: &str| inner == outer || inner.starts_with(&format!("{outer}/"));
    let ours = [GUEST_HOME, GUEST_WORKSPACE, "/tmp"];
    if target == "/" || ours.iter().any(|ours| within(ours, &target)) {
        return Err("would hide a folder that every sandbox has");
    }
    if within(&target, GUEST_WORKSPACE) || within(&target, "/tmp") {
        return Err("is inside a folder of the sandbox's own");
    }
    if SYSTEM.iter().any(|system| within(system, &target)) {
        return Err("would hide a folder that the guest's system needs; mount below it, or elsewhere");
    }
    if KERNEL.iter().any(|kernel| within(&target, kernel)) {
        return Err("is a place that the guest's system makes anew at each boot");
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, cleaned) in [
            ("/data", "/data"),
            ("/home/dev/.m2", "/home/dev/.m2"),
            ("//data/./x/", "/data/x"),
            ("/tmpfiles", "/tmpfiles"),
            ("/etc/own.conf", "/etc/own.conf"),
            ("/usr/share/own", "/usr/share/own"),
            ("/opt/tools", "/opt/tools"),
            ("/devices", "/devices"),
        ] {
            assert_eq!(target(text).as_deref(), Ok(cleaned), "{text}");
        }
        for text in [
            "",
            "data",
            "~/x",
            "/",
            "//",
            "/home",
            "/home/dev",
            "/home/dev/",
            "/workspace",
            "/workspace/x",
            "/tmp",
            "/tmp/x",
            "/data/../workspace",
            "/data/..",
            "/etc",
            "/usr",
            "/usr/lib/",
            "/lib64",
            "/var",
            "/opt",
            "/opt/agents-sandbox",
            "/proc",
            "/proc/sys",
            "/sys/x",
            "/dev/shm",
            "/run/agents-sandbox",
        ] {
            assert!(target(text).is_err(), "{text}");
        }
    }
}
