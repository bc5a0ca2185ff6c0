//! Layers → one EROFS file. Reading hostile layers and writing the file system is `microsandbox-image`'s.

use std::path::{Path, PathBuf};

use fs_err as fs;
use microsandbox_image::erofs::write_erofs;
use microsandbox_image::tar::{Compression, ingest_compressed_tar};
use microsandbox_image::tree::{FileTree, ResourceLimits};
use sandbox_runtime::RuntimeError;

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
    write_erofs(&merged, output).map_err(|error| RuntimeError::Other {
        context: format!("cannot write {}", output.display()),
        source: Some(Box::new(error)),
    })?;
    fs::File::open(output)?.sync_all()?;
    Ok(())
}

async fn ingest(layer: &Path, spool: &Path) -> Result<FileTree, RuntimeError> {
    let mut magic = [0; 4];
    let mut head = fs::File::open(layer)?;
    let read = std::io::Read::read(&mut head, &mut magic)?;
    let compression = Compression::detect(&magic[..read]);
    let file = tokio::fs::File::from_std(fs::File::open(layer)?.into_parts().0);
    let reader = tokio::io::BufReader::with_capacity(1 << 18, file);
    let ingested = ingest_compressed_tar(reader, compression, &ResourceLimits::default(), Some(spool))
        .await
        .map_err(|error| RuntimeError::BadArchive(format!("a layer cannot be used: {error}")))?;
    Ok(ingested.tree)
}
