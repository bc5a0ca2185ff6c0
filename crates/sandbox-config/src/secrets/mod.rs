//! Definitions of secrets, from the files `env.secret.yaml` and `env.secret` of the user and of the project.
//!
//! Nothing here shows a value: an error names the file, the line and the secret, and leaves out the text.

mod definition;
mod legacy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{ConfigError, FileError, Refusal, position};
use crate::fields::{entries, unique};
use crate::file::{Whose, read_of};
use crate::origin::{Origin, Value};
use crate::read::Folders;
use crate::yaml;

pub use definition::{SecretDefinition, SecretSource};

/// The names of the two files in a folder.
pub const SECRET_FILES: [&str; 2] = ["env.secret.yaml", "env.secret"];

/// What a definition may look like, for whoever wrote something else.
pub(crate) const FORMS: &str = "write NAME: {from-env: VARIABLE, host: api.example.com}; in the place of \
     from-env also value, from-file, from-command or from-keyring, and hosts: [a, b] for several";

/// The secrets of both folders, by name, and what the user should be told about them.
#[derive(Debug, Clone, Default)]
pub struct SecretFiles {
    /// Each with the file and the line that define it.
    pub secrets: BTreeMap<String, Value<SecretDefinition>>,
    /// The names of those that the project's files define.
    pub projects: Vec<String>,
    /// One line each, for people.
    pub warnings: Vec<String>,
}

/// Reads the files of both folders; a missing one is empty. `home` is what `~` means.
///
/// From the lowest layer to the highest: the user's `env.secret`, the project's, the user's
/// `env.secret.yaml`, the project's. A higher definition replaces a lower one whole. Fails on whatever is no
/// definition, and on a project's file that names a file, a command or a keyring of the host: whoever works
/// in a sandbox can write it.
pub fn secret_files(
    config_dir: &Path,
    project_dir: Option<&Path>,
    home: Option<&Path>,
) -> Result<SecretFiles, ConfigError> {
    let mut all = SecretFiles::default();
    let [yaml, legacy] = SECRET_FILES;
    for (name, structured) in [(legacy, false), (yaml, true)] {
        for (folder, projects) in [(Some(config_dir), false), (project_dir, true)] {
            let Some(path) = folder.map(|folder| folder.join(name)) else { continue };
            let whose = if projects { Whose::Project } else { Whose::User };
            let Some(text) = read_of(&path, whose)? else { continue };
            let folders =
                Folders { base: path.parent().map(Path::to_path_buf), home: home.map(Path::to_path_buf) };
            let file = File { path, text, folders, projects };
            if structured { file.structured(&mut all)? } else { file.legacy(&mut all)? }
        }
    }
    Ok(all)
}

struct File {
    path: PathBuf,
    text: String,
    folders: Folders,
    projects: bool,
}

impl File {
    fn structured(&self, all: &mut SecretFiles) -> Result<(), ConfigError> {
        // The parser's own message may repeat what it read.
        let document = yaml::parse(&self.text)
            .map_err(|refusal| self.refused(Refusal::new(refusal.span, "not valid YAML").help(FORMS)))?;
        let pairs = entries(&document, "the file", "a map from names to secrets")
            .map_err(|refusal| self.refused(refusal.help(FORMS)))?;
        unique(pairs).map_err(|refusal| self.refused(refusal))?;
        for pair in pairs {
            definition::check_name(&pair.key)
                .map_err(|message| self.refused(Refusal::new(pair.key_span.clone(), message).help(FORMS)))?;
            let definition = definition::read(&pair.key, &pair.value, &self.folders, self.projects)
                .map_err(|refusal| self.refused(refusal))?;
            self.add(all, &pair.key, definition, pair.key_span.start);
        }
        Ok(())
    }

    fn legacy(&self, all: &mut SecretFiles) -> Result<(), ConfigError> {
        let mut start = 0;
        for whole in self.text.split_inclusive('\n') {
            let line = whole.trim_end_matches(['\n', '\r']);
            let at = start..start + line.len();
            start += whole.len();
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            match legacy::line(line) {
                Ok(Some((name, definition))) => self.add(all, &name, definition, at.start),
                Ok(None) => {
                    let (file, line) = (self.path.display(), position(&self.text, at.start).0);
                    all.warnings
                        .push(format!("{file}:{line} is left out: it names no host, as KEY=value@host does"));
                }
                Err((message, help)) => return Err(self.refused(Refusal::new(at, message).help(help))),
            }
        }
        Ok(())
    }

    fn add(&self, all: &mut SecretFiles, name: &str, definition: SecretDefinition, offset: usize) {
        let origin = Origin::File { path: self.path.clone(), line: position(&self.text, offset).0 };
        all.projects.retain(|known| known != name);
        if self.projects {
            all.projects.push(name.into());
        }
        all.secrets.insert(name.into(), Value { value: definition, origin });
    }

    fn refused(&self, refusal: Refusal) -> ConfigError {
        ConfigError::File(Box::new(FileError::new(&self.path, &self.text, refusal).without_text()))
    }
}
