use std::collections::BTreeMap;
use std::io::{self, Write};

use sandbox_model::Digest;
use serde_json::json;
use sha2::Digest as _;

/// One file of a small image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Below the root, without a leading slash; with a trailing slash it is a folder.
    pub path: String,
    /// Empty for a folder.
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// The owner, and the group of the same number.
    pub uid: u32,
}

/// A docker archive made in memory: small images for tests that need no engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageArchive {
    /// One list per layer.
    pub layers: Vec<Vec<ArchiveFile>>,
    /// What the image sets for every command.
    pub env: Vec<(String, String)>,
    /// The image's own labels.
    pub labels: BTreeMap<String, String>,
}

impl ImageArchive {
    /// The image's id and the archive's bytes: an uncompressed tar as `docker save` writes it.
    pub fn build(&self) -> io::Result<(Digest, Vec<u8>)> {
        let layers = self.layers.iter().map(|files| layer(files)).collect::<io::Result<Vec<_>>>()?;
        let ids: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", hash(layer))).collect();
        let env: Vec<String> = self.env.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let config = serde_json::to_vec(&json!({
            "architecture": "amd64",
            "os": "linux",
            "config": { "Env": env, "Labels": self.labels },
            "rootfs": { "type": "layers", "diff_ids": ids },
            "history": [],
        }))?;
        let id = hash(&config);
        let names: Vec<String> =
            ids.iter().map(|id| format!("{}/layer.tar", &id["sha256:".len()..])).collect();
        let config_name = format!("{id}.json");
        let manifest = json!([{ "Config": config_name, "RepoTags": [], "Layers": names }]);

        let mut archive = tar::Builder::new(Vec::new());
        append(&mut archive, &config_name, &config, 0o644, 0)?;
        for (name, layer) in names.iter().zip(&layers) {
            append(&mut archive, name, layer, 0o644, 0)?;
        }
        append(&mut archive, "manifest.json", &serde_json::to_vec(&manifest)?, 0o644, 0)?;
        let digest = id.parse().map_err(io::Error::other)?;
        Ok((digest, archive.into_inner()?))
    }
}

fn layer(files: &[ArchiveFile]) -> io::Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    for file in files {
        append(&mut layer, &file.path, &file.content, file.mode, file.uid)?;
    }
    layer.into_inner()
}

fn append<W: Write>(
    to: &mut tar::Builder<W>,
    path: &str,
    content: &[u8],
    mode: u32,
    uid: u32,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(if path.ends_with('/') {
        tar::EntryType::Directory
    } else {
        tar::EntryType::Regular
    });
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_uid(uid.into());
    header.set_gid(uid.into());
    header.set_mtime(1_000_000_000);
    to.append_data(&mut header, path, content)
}

fn hash(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
