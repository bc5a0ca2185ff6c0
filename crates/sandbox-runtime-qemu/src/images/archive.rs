//! Docker image archives (`docker save`, `buildah push docker-archive:`), read as a stream.
//!
//! Format: the Docker image specification v1.2, "Combined image JSON + filesystem changeset format": a
//! `manifest.json` that names a configuration and layers. Archives come in any order, so the members are
//! put aside under names of ours; nothing of an archive's own names reaches the disk.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_runtime::RuntimeError;
use serde::Deserialize;

use crate::full::unless_full;

#[derive(Debug, Deserialize)]
struct ManifestEntry {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ConfigFile {
    #[serde(default)]
    config: RunConfig,
}

#[derive(Debug, Default, Deserialize)]
struct RunConfig {
    #[serde(rename = "Env", default)]
    env: Option<Vec<String>>,
    #[serde(rename = "Labels", default)]
    labels: Option<std::collections::BTreeMap<String, String>>,
}

/// The first image of an archive, its layers put aside in a folder.
#[derive(Debug)]
pub struct Unpacked {
    /// Lowest layer first.
    pub layers: Vec<PathBuf>,
    pub env: Vec<(String, String)>,
    pub labels: std::collections::BTreeMap<String, String>,
}

enum Member {
    File(PathBuf),
    /// `docker save` writes a repeated layer as a link to its first copy.
    Link(String),
}

/// More members than any real image has; a bound for archives that are made to hurt.
const MAX_MEMBERS: usize = 10_000;

fn bad(problem: impl Into<String>) -> RuntimeError {
    RuntimeError::BadArchive(problem.into())
}

/// Reads the whole archive into `aside`, which must be an empty folder.
pub fn unpack(archive: &mut dyn Read, aside: &Path) -> Result<Unpacked, RuntimeError> {
    let mut members: HashMap<String, Member> = HashMap::new();
    let mut tar = tar::Archive::new(archive);
    for (index, entry) in tar.entries()?.enumerate() {
        let mut entry = entry.map_err(|error| bad(format!("it cannot be read: {error}")))?;
        if index >= MAX_MEMBERS {
            return Err(bad(format!("it has more than {MAX_MEMBERS} members")));
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_string();
        let kind = entry.header().entry_type();
        if kind.is_file() {
            let path = aside.join(format!("member-{index}"));
            std::io::copy(&mut entry, &mut fs::File::create(&path)?).map_err(|error| {
                unless_full(&path, error, |problem| bad(format!("`{name}` cannot be read: {problem}")))
            })?;
            members.insert(name, Member::File(path));
        } else if kind.is_symlink() || kind.is_hard_link() {
            let target = entry.link_name_bytes().unwrap_or_default();
            let target = resolve(&name, &String::from_utf8_lossy(&target), kind.is_symlink());
            members.insert(name, Member::Link(target));
        }
    }
    let manifest = fs::read(find(&members, "manifest.json")?)?;
    let manifest: Vec<ManifestEntry> =
        serde_json::from_slice(&manifest).map_err(|error| bad(format!("manifest.json: {error}")))?;
    let first = manifest.into_iter().next().ok_or_else(|| bad("manifest.json names no image"))?;
    let config = fs::read(find(&members, &first.config)?)?;
    let config: ConfigFile =
        serde_json::from_slice(&config).map_err(|error| bad(format!("{}: {error}", first.config)))?;
    let layers = first.layers.iter().map(|name| find(&members, name)).collect::<Result<_, _>>()?;
    let env = config.config.env.unwrap_or_default();
    let env = env.iter().filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
    Ok(Unpacked { layers, env, labels: config.config.labels.unwrap_or_default() })
}

/// A link's target as a member name: symbolic links are relative to their own folder.
fn resolve(name: &str, target: &str, symbolic: bool) -> String {
    if !symbolic {
        return target.trim_start_matches("./").into();
    }
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

fn find(members: &HashMap<String, Member>, name: &str) -> Result<PathBuf, RuntimeError> {
    let mut name = name;
    // A chain of links longer than this is a circle.
    for _ in 0..8 {
        match members.get(name) {
            Some(Member::File(path)) => return Ok(path.clone()),
            Some(Member::Link(target)) => name = target,
            None => return Err(bad(format!("it has no member `{name}`"))),
        }
    }
    Err(bad(format!("`{name}` is a link that never ends")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(members: &[(&str, &str)], link: Option<(&str, &str)>) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, body) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(body.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, body.as_bytes()).unwrap();
        }
        if let Some((name, target)) = link {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, name, target).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Unpacked, RuntimeError> {
        let dir = tempfile::tempdir().unwrap();
        unpack(&mut &bytes[..], dir.path())
    }

    #[test]
    fn layers_come_in_the_manifests_order_and_through_links() {
        let bytes = archive(
            &[
                ("b/layer.tar", "B"),
                ("config.json", r#"{"config":{"Env":["A=1=2","PATH=/bin"],"Labels":{"k":"v"}}}"#),
                ("manifest.json", r#"[{"Config":"config.json","Layers":["a/layer.tar","b/layer.tar"]}]"#),
            ],
            Some(("a/layer.tar", "../b/layer.tar")),
        );
        let image = read(&bytes).unwrap();
        assert_eq!(image.layers.len(), 2);
        assert_eq!(image.layers[0], image.layers[1]);
        assert_eq!(image.env, [("A".into(), "1=2".into()), ("PATH".into(), "/bin".into())]);
        assert_eq!(image.labels["k"], "v");
    }

    #[test]
    fn what_is_missing_is_named() {
        let no_layer = archive(&[("c", "{}"), ("manifest.json", r#"[{"Config":"c","Layers":["x"]}]"#)], None);
        assert!(read(&no_layer).unwrap_err().to_string().contains("`x`"));
        assert!(read(&archive(&[], None)).unwrap_err().to_string().contains("manifest.json"));
        let circle = archive(
            &[("c", "{}"), ("manifest.json", r#"[{"Config":"c","Layers":["a"]}]"#)],
            Some(("a", "a")),
        );
        assert!(read(&circle).unwrap_err().to_string().contains("never ends"));
    }

    #[test]
    fn a_cut_archive_is_refused() {
        let whole = archive(&[("c", "{}"), ("manifest.json", r#"[{"Config":"c","Layers":[]}]"#)], None);
        assert!(read(&whole).is_ok());
        assert!(matches!(read(&whole[..700]), Err(RuntimeError::BadArchive(_))));
    }
}
