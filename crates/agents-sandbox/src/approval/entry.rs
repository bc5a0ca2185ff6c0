use std::path::{Path, PathBuf};

use sandbox_config::{
    EnvFiles, Origin, ProjectLayer, SecretDefinition, SecretFiles, SecretSource, Value, Widening, widening,
};
use sandbox_image::ProjectSource;
use sandbox_lifecycle::Project;
use sandbox_state::Layout;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::borrowed::Borrowed;
use super::store::contains;
use crate::report::plain;

/// One thing that the project's files widen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// File and line, for people.
    place: String,
    key: String,
    text: String,
    /// The text may be a secret of the project's.
    private: bool,
    /// No file asks for it: the folder itself is too much.
    exposed: bool,
    sha256: String,
}

impl Entry {
    fn new(place: String, key: &str, text: &str, exact: &Json) -> Self {
        // As JSON, so that no two entries have the same bytes.
        let bytes = Json::from(vec![Json::from(key), exact.clone()]).to_string();
        let sha256 = hex::encode(Sha256::digest(bytes));
        Self { place, key: plain(key), text: plain(text), private: false, exposed: false, sha256 }
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether the folder itself is what widens.
    pub const fn is_exposed(&self) -> bool {
        self.exposed
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// 64 hex digits over key and exact text.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// For whoever is asked.
    pub fn line(&self) -> String {
        format!("{}  {}: {}", self.place, self.key, self.text)
    }

    /// For errors, which end up in logs: without the values of variables.
    pub fn line_for_logs(&self) -> String {
        if self.private { format!("{}  {}", self.place, self.key) } else { self.line() }
    }
}

/// The folder itself, settings, variables, Dockerfile.
pub fn entries(
    project: &Project,
    former: &[PathBuf],
    layer: Option<&ProjectLayer>,
    env: &EnvFiles,
    source: &ProjectSource,
) -> Vec<Entry> {
    let mut entries: Vec<Entry> = former.iter().map(|former| workspace(project, former)).collect();
    entries.extend(layer.into_iter().flat_map(|layer| settings(project, layer)));
    let file = shown(project, &project.config_dir.join("env"));
    entries.extend(env.project.iter().map(|(name, value)| Entry {
        private: true,
        ..Entry::new(file.clone(), &format!("env {name}"), value, &Json::from(value.as_str()))
    }));
    if !source.is_empty() {
        let copies = match source.files() {
            0 => String::new(),
            1 => ", with the file that it may copy".to_owned(),
            files => format!(", with the {files} files that it may copy"),
        };
        let (sha256, lines) = (source.sha256(), source.lines());
        let text =
            format!("runs on this machine's image engine{copies} ({lines} lines, sha256 {})", &sha256[..12]);
        let path = shown(project, &project.config_dir.join("Dockerfile"));
        entries.push(Entry::new(path, "Dockerfile", &text, &Json::from(sha256)));
    }
    entries
}

/// The secrets that the project's files define: what they would send, and to whom. What is approved includes a
/// value that stands in the file.
pub fn secrets(project: &Project, files: &SecretFiles) -> Vec<Entry> {
    let of_project = files.secrets.iter().filter(|(name, _)| files.projects.contains(name));
    let entry = |(name, secret): (&String, &Value<SecretDefinition>)| {
        let Origin::File { path, line } = &secret.origin else { return None };
        let definition = &secret.value;
        let hosts: Vec<String> = definition.hosts.iter().map(ToString::to_string).collect();
        let reach = crate::secrets::reach(definition);
        let literal = match &definition.source {
            SecretSource::Literal(value) => Some(value.reveal()),
            _ => None,
        };
        let source = definition.source.to_string();
        let exact = json!([source, literal, hosts, definition.headers, definition.query, definition.body]);
        let place = format!("{}:{line}", shown(project, path));
        let text = format!("sends {source} to {reach}{}", crate::secrets::places(definition));
        Some(Entry::new(place, &format!("secret {name}"), &text, &exact))
    };
    of_project.filter_map(entry).collect()
}

/// What the guest could change if the checkout contains this program's own folders.
pub fn exposed(project: &Project, layout: &Layout) -> Vec<Entry> {
    let root = project.root.to_string_lossy();
    let own =
        [("settings", &layout.config), ("records", &layout.state), ("programs and disks", &layout.data)];
    let inside = own.into_iter().filter(|(_, folder)| contains(&project.root, folder));
    inside
        .map(|(what, folder)| {
            let text =
                format!("{root}, which contains this program's own {what}: the sandbox can change them");
            let place = folder.to_string_lossy().into_owned();
            Entry { exposed: true, ..Entry::new(place, "workspace", &text, &Json::from(text.as_str())) }
        })
        .collect()
}

/// What the checkout's `.git` brings in by now.
pub fn borrowed(project: &Project, borrowed: &Borrowed) -> Vec<Entry> {
    let entry = |place: &str, key, text: String, path: &Path| {
        let place = shown(project, &project.root.join(place));
        Entry::new(place, key, &text, &Json::from(path.to_string_lossy()))
    };
    let settings = borrowed.settings.as_deref().map(|dir| {
        let text =
            format!("{}, your settings for that remote, which this folder did not have", dir.display());
        entry(".git/config", "remote", text, dir)
    });
    let repository = borrowed.repository.as_deref().map(|path| {
        let text = format!("{}, for the sandbox to write, which this folder did not have", path.display());
        entry(".git", "repository", text, path)
    });
    settings.into_iter().chain(repository).collect()
}

fn workspace(project: &Project, former: &Path) -> Entry {
    let place = shown(project, former);
    let root = project.root.to_string_lossy();
    let text = format!("{root}, because `{place}` is no checkout of its own any more: its .git is gone");
    Entry::new(place, "workspace", &text, &Json::from(root))
}

fn settings(project: &Project, layer: &ProjectLayer) -> Vec<Entry> {
    let all = sandbox_config::entries(&layer.settings);
    let file = shown(project, &layer.file);
    let entry = |Widening { key, text, line }| {
        // Where the file leaves something out there is no value, and the text says it all. Otherwise two
        // values may read the same: `/a (readonly)` is a folder's name or a folder that is only read.
        let value = all.iter().find(|entry| entry.key == key && line > 0).map(|entry| entry.json.clone());
        let place = if line > 0 { format!("{file}:{line}") } else { file.clone() };
        Entry::new(place, &key, &text, &Json::from(vec![Json::from(text.as_str()), value.into()]))
    };
    widening(layer).into_iter().map(entry).collect()
}

fn shown(project: &Project, path: &Path) -> String {
    plain(&path.strip_prefix(&project.root).unwrap_or(path).to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256(key: &str, exact: &str) -> String {
        Entry::new("file:1".into(), key, exact, &Json::from(exact)).sha256
    }

    #[test]
    fn the_hash_is_of_the_exact_text_whatever_is_shown() {
        assert_eq!(sha256("env A", "b"), sha256("env A", "b"));
        for (key, exact) in [("env A", "b "), ("env A", "b\x1b[0m"), ("env B", "b"), ("env Ab", "")] {
            assert_ne!(sha256("env A", "b"), sha256(key, exact), "{key} {exact:?}");
        }
    }

    #[test]
    fn a_line_is_one_line_without_codes() {
        let entry = Entry::new("env".into(), "env A", "x\x1b[2Jy\nz\u{202e}", &Json::Null);
        assert_eq!(entry.line(), "env  env A: xy z");
    }
}
