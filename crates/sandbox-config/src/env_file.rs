use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{ConfigError, FileError, Refusal};
use crate::file::{Whose, read_of};

/// The variables that are set in the guest, from the files named `env`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvFiles {
    /// From the user's configuration folder.
    pub user: BTreeMap<String, String>,
    /// From the project's folder, which whoever works in the sandbox can write.
    pub project: BTreeMap<String, String>,
}

impl EnvFiles {
    /// Both, where the project's wins.
    pub fn merged(&self) -> BTreeMap<String, String> {
        let mut merged = self.user.clone();
        merged.extend(self.project.clone());
        merged
    }
}

/// Reads `env` in both folders; a missing file is an empty one.
pub fn env_files(config_dir: &Path, project_dir: Option<&Path>) -> Result<EnvFiles, ConfigError> {
    let read = |folder: &Path, whose| env_file_of(&folder.join("env"), whose);
    let project = project_dir.map(|folder| read(folder, Whose::Project)).transpose()?.unwrap_or_default();
    Ok(EnvFiles { user: read(config_dir, Whose::User)?, project })
}

/// Lines of `NAME=value`. Empty lines and lines that begin with `#` are left out. The value is everything
/// after the first `=`, quotes and spaces included; of two lines with one name the later counts.
pub fn env_file(path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    env_file_of(path, Whose::User)
}

fn env_file_of(path: &Path, whose: Whose) -> Result<BTreeMap<String, String>, ConfigError> {
    let Some(text) = read_of(path, whose)? else { return Ok(BTreeMap::new()) };
    let mut variables = BTreeMap::new();
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end_matches(['\n', '\r']);
        let at = start..start + line.len();
        start += whole.len();
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let (name, value) = assignment(line).map_err(|(message, help)| {
            ConfigError::File(Box::new(FileError::new(
                path,
                &text,
                Refusal::new(at.clone(), message).help(help),
            )))
        })?;
        variables.insert(name.into(), value.into());
    }
    Ok(variables)
}

fn assignment(line: &str) -> Result<(&str, &str), (String, &'static str)> {
    let form = "write NAME=value, one to a line";
    let (name, value) = line.split_once('=').ok_or_else(|| ("this line has no `=`".to_owned(), form))?;
    let name = name.trim();
    if let Some(rest) = name.strip_prefix("export ") {
        return Err((
            format!("`{name}` is not the name of a variable"),
            if rest.is_empty() { form } else { "leave out `export`" },
        ));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(plain) {
        return Err((format!("`{name}` is not the name of a variable"), form));
    }
    if value.contains('\0') {
        return Err(("a value cannot contain a zero byte".into(), form));
    }
    Ok((name, value))
}
