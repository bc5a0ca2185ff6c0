//! What goes into the guest's home. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sandbox_agents::ConfigFiles;
use sandbox_model::VolumeName;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::host_files::HostFile;
use super::merge::merge;
use crate::{LifecycleError, Result};

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    content: Vec<u8>,
}

#[derive(Debug)]
pub struct Bundle {
    /// By path in the guest's home.
    entries: BTreeMap<PathBuf, Entry>,
    /// Files in the guest's home that would hide the merged document.
    hidden: Vec<String>,
}

impl Bundle {
    /// The project's files win over the user's; a snippet that is not JSON5 is an error with its place.
    pub fn new(config: &ConfigFiles, user: Vec<HostFile>, project: Vec<HostFile>) -> Result<Self> {
        let mut entries = BTreeMap::new();
        let mut document: Option<Value> = None;
        for file in user.into_iter().chain(project) {
            let name = file.path.to_str().unwrap_or_default();
            if config.is_snippet(name) {
                let snippet = parse(&file)?;
                match &mut document {
                    Some(document) => merge(document, snippet),
                    None => document = Some(snippet),
                }
            } else if !config.family.contains(&name) {
                let path = PathBuf::from(config.guest_dir).join(&file.path);
                entries.insert(path, Entry { mode: file.mode, content: file.content });
            }
        }
        let mut hidden = Vec::new();
        if let Some(document) = document {
            let content = format!("{document:#}\n").into_bytes();
            entries.insert(config.merged.into(), Entry { mode: 0o600, content });
            hidden.extend(config.family.iter().map(|name| format!("{}/{name}", config.guest_dir)));
        }
        Ok(Self { entries, hidden })
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Files that are written.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Files to remove first, relative to the guest's home.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        self.hidden.iter().map(String::as_str)
    }

    /// All files, relative to the guest's home. The same files give the same bytes.
    pub fn archive(&self) -> std::io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let mut header = tar::Header::new_gnu();
            header.set_mode(entry.mode);
            header.set_size(entry.content.len() as u64);
            // Not 1970: some tools take that for "unknown".
            header.set_mtime(1_000_000_000);
            archive.append_data(&mut header, path, entry.content.as_slice())?;
        }
        archive.into_inner()
    }

    /// Changes with the files, and with the home they go to.
    pub fn fingerprint(&self, home: Option<&VolumeName>) -> String {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(home.map_or("", VolumeName::as_str).as_bytes());
        for (path, entry) in &self.entries {
            part(path.as_os_str().as_encoded_bytes());
            part(&entry.mode.to_be_bytes());
            part(&entry.content);
        }
        hex::encode(hash.finalize())
    }
}

fn parse(file: &HostFile) -> Result<Value> {
    let problem = |problem: String| LifecycleError::Snippet { path: file.source.clone(), problem };
    let text = std::str::from_utf8(&file.content).map_err(|error| problem(error.to_string()))?;
    let snippet: Value = json5::from_str(text).map_err(|error| problem(error.to_string()))?;
    if snippet.is_object() { Ok(snippet) } else { Err(problem("it is not an object".into())) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use sandbox_agents::profile;
    use sandbox_model::AgentName;

    use super::*;

    fn file(path: &str, content: &str) -> HostFile {
        HostFile {
            path: path.into(),
            mode: 0o755,
            content: content.into(),
            source: format!("/host/{path}").into(),
        }
    }

    fn bundle(user: Vec<HostFile>, project: Vec<HostFile>) -> Result<Bundle> {
        Bundle::new(&profile(AgentName::Opencode).config, user, project)
    }

    fn unpacked(bundle: &Bundle) -> BTreeMap<String, String> {
        let bytes = bundle.archive().unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (entry.path().unwrap().display().to_string(), text)
        });
        entries.collect()
    }

    #[test]
    fn snippets_become_one_document_and_the_rest_is_copied() {
        let bundle = bundle(
            vec![
                file("agent/a.md", "user"),
                file("opencode-a.json5", "{ model: 'x', mcp: { a: 1 }, } // mine"),
            ],
            vec![
                file("agent/a.md", "project"),
                file("config.json", "{}"),
                file("opencode.json", r#"{"mcp":{"b":2}}"#),
            ],
        )
        .unwrap();
        let files = unpacked(&bundle);
        assert_eq!(
            files.keys().collect::<Vec<_>>(),
            [".config/opencode/agent/a.md", ".config/opencode/opencode.jsonc"]
        );
        assert_eq!(files[".config/opencode/agent/a.md"], "project");
        let merged: Value = serde_json::from_str(&files[".config/opencode/opencode.jsonc"]).unwrap();
        assert_eq!(merged, serde_json::json!({ "model": "x", "mcp": { "a": 1, "b": 2 } }));
        assert!(bundle.hidden().any(|name| name == ".config/opencode/opencode.json"));
    }

    #[test]
    fn without_snippets_the_sandboxes_own_configuration_stays() {
        let bundle = bundle(vec![file("AGENTS.md", "x")], Vec::new()).unwrap();
        assert_eq!(bundle.hidden().count(), 0);
        assert_eq!(bundle.len(), 1);
    }

    #[test]
    fn a_snippet_that_is_none_is_named() {
        for text in ["{", "[]", "\u{1}"] {
            let error = bundle(vec![file("opencode.json", text)], Vec::new()).unwrap_err().to_string();
            assert!(error.starts_with("/host/opencode.json: "), "{error}");
        }
    }

    #[test]
    fn the_fingerprint_follows_files_and_home() {
        let one = bundle(vec![file("a", "x")], Vec::new()).unwrap();
        let other = bundle(vec![file("a", "y")], Vec::new()).unwrap();
        let home: VolumeName = "home-1".parse().unwrap();
        assert_eq!(one.fingerprint(None), one.fingerprint(None));
        assert_ne!(one.fingerprint(None), other.fingerprint(None));
        assert_ne!(one.fingerprint(None), one.fingerprint(Some(&home)));
    }
}
