use sha2::{Digest, Sha256};

use crate::{ContextFile, ProjectContext};

/// SHA-256 over the parts, each led by its length so that no two sets of parts read the same.
pub(super) fn content_id(
    dockerfile: &str,
    files: &[ContextFile],
    context: &ProjectContext,
    agent_version: &str,
) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(dockerfile.as_bytes());
    part(agent_version.as_bytes());
    for file in files {
        part(file.path.as_bytes());
        part(&file.content);
    }
    context.hash_into(&mut hash);
    hex::encode(hash.finalize())
}
