//! Secrets, from their definitions to values: what a start hands to whoever puts them in.
//!
//! A source that cannot be read is an error before anything starts. Values are in this process's memory, closed
//! to others, until the sandbox is up, and in the pipe to the machine; records have a fingerprint of each.

mod fingerprint;
mod guard;
mod source;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandbox_config::{Origin, SecretDefinition, SecretFiles, SecretSource, Value};
use sandbox_model::{CREDENTIAL_HEADERS, SecretSpec, SecretValue, SecretValues};
use sandbox_state::Layout;

use crate::error::CommandError;

/// What a definition may look like, for whoever's source cannot be read.
const FORMS: &str = "a secret is one of NAME: {value: …}, {from-env: VARIABLE}, {from-file: PATH}, \
     {from-command: LINE} or {from-keyring: SERVICE}, each with host: or hosts:";

/// What records know, and the values.
#[derive(Debug, Default)]
pub struct Resolved {
    pub specs: Vec<SecretSpec>,
    pub values: SecretValues,
}

/// Looks every value up. A file is read through no link in one of the `walls`, the folders that a sandbox writes.
pub fn resolve(layout: &Layout, files: &SecretFiles, walls: &[PathBuf]) -> Result<Resolved, CommandError> {
    let mut resolved = Resolved::default();
    if files.secrets.is_empty() {
        return Ok(resolved);
    }
    let key = fingerprint::key(layout)
        .map_err(|error| CommandError::new(format!("{}: {error}", layout.secret_key().display())))?;
    for (name, Value { value: definition, origin }) in &files.secrets {
        let value = source::value(&definition.source, walls)
            .and_then(|value| fits(definition, value))
            .map_err(|problem| unreadable(name, definition, origin, &problem))?;
        resolved.specs.push(spec(name, definition, fingerprint::fingerprint(&key, name, &value)));
        resolved.values.insert(name.clone(), value);
    }
    Ok(resolved)
}

/// The definition without its value, for a record.
fn spec(name: &str, definition: &SecretDefinition, fingerprint: String) -> SecretSpec {
    SecretSpec {
        name: name.into(),
        hosts: definition.hosts.clone(),
        headers: definition.headers.clone(),
        query: definition.query,
        body: definition.body,
        fingerprint,
    }
}

/// A line break would end the header that the value stands in.
fn fits(definition: &SecretDefinition, value: String) -> Result<SecretValue, String> {
    let breaks = value.contains(['\r', '\n', '\0']);
    let value = SecretValue::new(value);
    if breaks && (!definition.headers.is_empty() || definition.query) {
        return Err("the value has a line break in it, which no header and no address can have".into());
    }
    Ok(value)
}

fn unreadable(name: &str, definition: &SecretDefinition, origin: &Origin, problem: &str) -> CommandError {
    CommandError::new(format!(
        "{origin}: the secret {name} cannot be read from {}: {problem}",
        definition.source
    ))
    .hint(FORMS)
}

/// A secret and a variable of one name would fight over one place in the guest.
pub fn check_names(files: &SecretFiles, env: &BTreeMap<String, String>) -> Result<(), CommandError> {
    match files.secrets.iter().find(|(name, _)| env.contains_key(*name)) {
        Some((name, secret)) => Err(CommandError::new(format!(
            "{}: {name} is a secret, and a plain variable in an `env` file too",
            secret.origin
        ))
        .hint(format!("take {name} out of the `env` file: the guest gets a stand-in under this name"))),
        None => Ok(()),
    }
}

/// What the user should be told about the files.
pub fn remarks(files: &SecretFiles) -> Vec<String> {
    let mut remarks = files.warnings.clone();
    let mut seen = Vec::new();
    for (name, secret) in &files.secrets {
        let Origin::File { path, .. } = &secret.origin else { continue };
        if matches!(secret.value.source, SecretSource::Literal(_))
            && !files.projects.contains(name)
            && !seen.contains(path)
            && std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
        {
            remarks.push(format!("others can read the values in {0}; `chmod 600 {0}`", path.display()));
            seen.push(path.clone());
        }
        if secret.value.hosts.is_empty() {
            remarks.push(format!("the secret {name} may go to any host that the sandbox reaches"));
        }
    }
    remarks
}

/// The definitions of both folders. Where there is one, this process's memory is its own from here on.
pub fn files(layout: &Layout, project_dir: Option<&Path>) -> Result<SecretFiles, CommandError> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let files = sandbox_config::secret_files(&layout.config, project_dir, home.as_deref())?;
    if !files.secrets.is_empty() {
        guard::close_memory()?;
    }
    Ok(files)
}

/// Where a secret is put in beside the usual headers, in words that follow whom it is for. What a host repeats
/// or keeps of these places, the guest can read.
pub fn places(secret: &SecretDefinition) -> String {
    let mut places = Vec::new();
    if secret.headers.iter().any(|header| header == "*") {
        places.push("in every header".to_string());
    } else {
        let usual = |header: &&String| !CREDENTIAL_HEADERS.contains(&header.as_str());
        let others: Vec<&str> = secret.headers.iter().filter(usual).map(String::as_str).collect();
        if !others.is_empty() {
            places.push(format!("in the headers {}", others.join(", ")));
        }
    }
    if secret.query {
        places.push("in addresses".into());
    }
    if secret.body {
        places.push("in bodies".into());
    }
    if places.is_empty() {
        return String::new();
    }
    format!(", also {}, where that host may show it to the sandbox", places.join(" and "))
}

/// Whom a secret is for, in words.
pub fn reach(secret: &SecretDefinition) -> String {
    let hosts: Vec<String> = secret.hosts.iter().map(ToString::to_string).collect();
    if hosts.is_empty() { "any host".into() } else { hosts.join(", ") }
}
