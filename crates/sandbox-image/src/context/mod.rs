//! The project's files that a `COPY` may reach: found, checked, fingerprinted, and copied to the folder
//! that an engine gets. The project itself is only read.

mod copy;
mod scan;

use std::path::PathBuf;

use sha2::{Digest, Sha256};

pub(crate) use copy::write_context;

/// Names at the top of `.agents-sandbox` that never enter an image: our own files, which would cause
/// needless builds, and secrets, which would leak.
const OURS: [&str; 8] = [
    "Dockerfile",
    "config.yaml",
    "config.yml",
    "config.json",
    "config.jsonc",
    "config.json5",
    "env",
    ".dockerignore",
];
const SECRETS: &str = "env.secret";

/// One thing in the context, looked at once and checked again while it is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextEntry {
    /// Relative to the context's root.
    pub path: PathBuf,
    /// What it is, and what of that counts for the content id.
    pub kind: EntryKind,
}

/// What kinds of things a context holds; any other is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder; its permissions do not count.
    Dir,
    /// Permission bits and the SHA-256 of the content.
    File {
        /// The lowest nine bits.
        mode: u32,
        /// As raw bytes.
        hash: [u8; 32],
    },
    /// A link that stays inside of the context.
    Link {
        /// Its own text, not resolved.
        target: PathBuf,
    },
}

/// The context of one project, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectContext {
    /// Resolved folder that the paths are relative to; unset when there are no files.
    pub(crate) root: Option<PathBuf>,
    /// Files, folders and links; a folder before what is in it.
    pub entries: Vec<ContextEntry>,
    /// Text of the project's `.dockerignore`.
    pub(crate) ignore: Option<String>,
}

/// Why a project's files cannot be a build context.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("{path} is a link that leads out of the build context (to {target})")]
    Escape { path: PathBuf, target: PathBuf },
    #[error("{0} is neither a file, a folder nor a link, and cannot be in a build context")]
    Special(PathBuf),
    #[error("{0} is a name that is reserved for agents-sandbox")]
    Reserved(PathBuf),
    #[error("{path} cannot be used: {problem}")]
    Dockerfile { path: PathBuf, problem: String },
    #[error("{0} changed while the image was made from it")]
    Changed(PathBuf),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl ProjectContext {
    /// How many files and links there are.
    pub(crate) fn files(&self) -> usize {
        self.entries.iter().filter(|entry| entry.kind != EntryKind::Dir).count()
    }

    /// Each entry led by its length, so that no two contexts read the same.
    pub(crate) fn hash_into(&self, hash: &mut Sha256) {
        for entry in &self.entries {
            let part = entry.fingerprint();
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
}

impl ContextEntry {
    pub(crate) fn fingerprint(&self) -> Vec<u8> {
        let mut bytes = self.path.as_os_str().as_encoded_bytes().to_vec();
        bytes.push(0);
        match &self.kind {
            EntryKind::Dir => bytes.push(b'd'),
            EntryKind::File { mode, hash } => {
                bytes.extend(format!("f{mode:o}").bytes());
                bytes.extend(hash);
            }
            EntryKind::Link { target } => {
                bytes.push(b'l');
                bytes.extend(target.as_os_str().as_encoded_bytes());
            }
        }
        bytes
    }
}
