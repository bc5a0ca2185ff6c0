use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::{LastLink, read_text};

use crate::ConfigError;

/// Larger than any configuration, and small enough to read without a thought.
const LIMIT: u64 = 1 << 20;

/// The names under which a folder's settings are looked for; the first that is there counts.
pub const FILE_NAMES: [&str; 5] =
    ["config.yaml", "config.yml", "config.json", "config.jsonc", "config.json5"];

/// Whose a folder of settings is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A link in it may lead anywhere.
    User,
    /// Whoever works in the sandbox can write it: a link in it may lead only to a file of the same checkout.
    Project,
}

/// The settings file of a folder and its text.
pub(crate) fn settings_file(folder: &Path, whose: Whose) -> Result<Option<(PathBuf, String)>, ConfigError> {
    for name in FILE_NAMES {
        let path = folder.join(name);
        if let Some(text) = read_of(&path, whose)? {
            return Ok(Some((path, text)));
        }
    }
    Ok(None)
}

/// The text of a file; `None` where there is none.
///
/// The project's files are written by whoever works in the sandbox: a pipe in their place must not make
/// the caller wait, and an endless device must not fill its memory.
pub(crate) fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    read_at(path, path)
}

/// `path` is the one that the user knows; `resolved` is where it leads.
fn read_at(path: &Path, resolved: &Path) -> Result<Option<String>, ConfigError> {
    match read_whole(resolved) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(source) => Err(ConfigError::Unreadable { path: path.into(), source }),
    }
}

/// [`read`] of a file in a folder of settings.
pub(crate) fn read_of(path: &Path, whose: Whose) -> Result<Option<String>, ConfigError> {
    if whose == Whose::User {
        return read(path);
    }
    let resolved = match path.canonicalize() {
        Ok(resolved) => resolved,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(source) => return Err(ConfigError::Unreadable { path: path.into(), source }),
    };
    let checkout = path.parent().and_then(Path::parent).and_then(|checkout| checkout.canonicalize().ok());
    if !checkout.is_some_and(|checkout| resolved.starts_with(checkout)) {
        return Err(ConfigError::Escape { path: path.into(), target: resolved });
    }
    read_at(path, &resolved)
}

fn read_whole(path: &Path) -> io::Result<String> {
    let text = read_text(path, LastLink::Followed, LIMIT)?;
    // A mark that some editors put at the beginning is no part of the text.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
