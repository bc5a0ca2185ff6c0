use std::io;
use std::path::Path;

use fs_err as fs;
use sandbox_files::{LastLink, read_text};
use sha2::{Digest, Sha256};

use crate::{ContextError, ProjectContext, ProjectDockerfile, Result};

/// Far larger than any Dockerfile.
const LIMIT: u64 = 1 << 20;

/// What a project's own folder puts into its image: its Dockerfile, and the files that it may copy.
///
/// It is read once, so that what is built is what was looked at: the folder is one that a sandbox can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectSource {
    text: String,
    pub(crate) dockerfile: ProjectDockerfile,
    pub(crate) context: ProjectContext,
}

impl Default for ProjectSource {
    fn default() -> Self {
        Self {
            text: String::new(),
            dockerfile: ProjectDockerfile::none(),
            context: ProjectContext::default(),
        }
    }
}

impl ProjectSource {
    /// Reads a project's `.agents-sandbox` folder, which need not exist.
    ///
    /// The Dockerfile may be a link, but only to a file of the same checkout, of at most 1 MiB.
    pub fn read(dir: &Path) -> Result<Self> {
        let Some(text) = read_dockerfile(dir)? else { return Ok(Self::default()) };
        let dockerfile = ProjectDockerfile::parse(&text)?;
        if dockerfile == ProjectDockerfile::none() {
            return Ok(Self::default());
        }
        let context =
            if dockerfile.uses_context { ProjectContext::scan(dir)? } else { ProjectContext::default() };
        Ok(Self { text, dockerfile, context })
    }

    /// The project adds nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The Dockerfile's base asks for a Docker engine in the sandbox.
    pub const fn wants_docker(&self) -> bool {
        self.dockerfile.wants_docker
    }

    /// Lines of the Dockerfile.
    pub fn lines(&self) -> usize {
        self.text.split_inclusive('\n').count()
    }

    /// Files and links that the Dockerfile may copy.
    pub fn files(&self) -> usize {
        self.context.files()
    }

    /// 64 hex digits over the Dockerfile and everything that it may copy.
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        let ignore = self.context.ignore.as_deref().unwrap_or_default().as_bytes();
        for part in [self.text.as_bytes(), ignore] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        self.context.hash_into(&mut hash);
        hex::encode(hash.finalize())
    }
}

fn read_dockerfile(dir: &Path) -> Result<Option<String>> {
    let path = dir.join("Dockerfile");
    if let Err(error) = fs::symlink_metadata(&path) {
        return match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error.into()),
        };
    }
    let real = fs::canonicalize(&path)?;
    let dir = fs::canonicalize(dir)?;
    if !real.starts_with(dir.parent().unwrap_or(&dir)) {
        return Err(ContextError::Escape { path, target: real }.into());
    }
    // A pipe must not make us wait, nor an endless device fill our memory.
    read_text(&real, LastLink::Refused, LIMIT)
        .map(Some)
        .map_err(|source| ContextError::Dockerfile { path, problem: source.to_string() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_small_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Dockerfile");
        let problem = || ProjectSource::read(dir.path()).unwrap_err().to_string();
        assert!(ProjectSource::read(dir.path()).unwrap().is_empty());
        fs::write(&path, "# nothing yet\n").unwrap();
        assert!(ProjectSource::read(dir.path()).unwrap().is_empty());
        fs::write(&path, "FROM x\nRUN id").unwrap();
        assert_eq!(ProjectSource::read(dir.path()).unwrap().lines(), 2);
        fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(problem().ends_with("larger than 1 MiB"), "{}", problem());
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        assert!(problem().ends_with("not a regular file"), "{}", problem());
    }

    #[test]
    fn what_may_be_copied_counts_where_it_may_be() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let sha256 = || ProjectSource::read(dir.path()).unwrap().sha256();
        write("Dockerfile", "FROM x\nRUN id\n");
        write("setup.sh", "true\n");
        let before = sha256();
        write("setup.sh", "false\n");
        assert_eq!(sha256(), before, "nothing copies it");
        write("Dockerfile", "FROM x\nCOPY setup.sh /\n");
        let before = sha256();
        write("setup.sh", "true\n");
        assert_ne!(sha256(), before);
        let before = sha256();
        write(".dockerignore", "setup.sh\n");
        assert_ne!(sha256(), before);
    }
}
