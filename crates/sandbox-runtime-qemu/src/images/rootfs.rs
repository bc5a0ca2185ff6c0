//! Layers → one EROFS file. Reading hostile layers and writing the file system is `microsandbox-image`'s.

use std::path::{Path, PathBuf};

use fs_err as fs;
use microsandbox_image::erofs::write_erofs;
use microsandbox_image::tar::{Compression, ingest_compressed_tar};
use microsandbox_image::tree::{FileTree, ResourceLimits};
use sandbox_runtime::RuntimeError;

use super::plain::copy_plain;
use crate::full::{is_full, no_room, unless_full};

/// Merges `layers` (tar, plain or compressed, lowest first) into `output`. `aside` is for large files.
pub fn write_rootfs(
    layers: &[PathBuf],
    aside: &Path,
    output: &Path,
    mut layer_done: impl FnMut(u64),
) -> Result<(), RuntimeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut merged = FileTree::new();
    for (index, layer) in layers.iter().enumerate() {
        let spool = aside.join(format!("spool-{index}"));
        let tree = runtime.block_on(ingest(layer, &spool))?;
        if index == 0 {
            merged = tree;
        } else {
            merged.merge_layer(tree);
        }
        layer_done(index as u64 + 1);
    }
    write_erofs(&merged, output).map_err(|error| {
        if is_full(&error) {
            return no_room(output);
        }
        let context = format!("cannot write {}", output.display());
        RuntimeError::Other { context, source: Some(Box::new(error)) }
    })?;
    fs::File::open(output)?.sync_all()?;
    Ok(())
}

async fn ingest(layer: &Path, spool: &Path) -> Result<FileTree, RuntimeError> {
    let mut magic = [0; 4];
    let mut head = fs::File::open(layer)?;
    let read = std::io::Read::read(&mut head, &mut magic)?;
    let compression = Compression::detect(&magic[..read]);
    let file = fs::File::open(layer)?.into_parts().0;
    if !matches!(compression, Compression::None) {
        // Compressed layers come from registries, not from an engine's own storage.
        return take(file, compression, spool).await;
    }
    let (from, to) = std::io::pipe()?;
    let copier = std::thread::spawn(move || copy_plain(std::io::BufReader::with_capacity(BUFFER, file), to));
    let tree = take(std::fs::File::from(std::os::fd::OwnedFd::from(from)), compression, spool).await;
    match copier.join() {
        // A reader that gave up breaks the pipe; its own reason is the better one.
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(RuntimeError::BadArchive(format!("a layer cannot be read: {error}")))
        }
        Ok(_) => tree,
        Err(_) => Err(RuntimeError::other("the copy of a layer panicked")),
    }
}

const BUFFER: usize = 1 << 18;

async fn take(file: std::fs::File, compression: Compression, spool: &Path) -> Result<FileTree, RuntimeError> {
    let reader = tokio::io::BufReader::with_capacity(BUFFER, tokio::fs::File::from_std(file));
    let ingested = ingest_compressed_tar(reader, compression, &ResourceLimits::default(), Some(spool))
        .await
        .map_err(|error| {
            let bad = |problem| RuntimeError::BadArchive(format!("a layer cannot be used: {problem}"));
            unless_full(spool, error, bad)
        })?;
    Ok(ingested.tree)
}
