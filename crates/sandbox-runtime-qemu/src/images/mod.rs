//! The image store: one folder per content, one small file per reference.
//!
//! ```text
//! images/<digest>/rootfs.erofs   the whole root, read-only, shared by every sandbox of the image
//! images/<digest>/image.json     environment, labels, size
//! references/<encoded name>      which digest a reference means
//! ```

mod archive;
mod plain;
mod rootfs;
mod store;

pub use store::ImageStore;
