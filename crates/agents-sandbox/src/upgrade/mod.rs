//! Another version of this program in the place of this one.
//!
//! ```text
//! SHA256SUMS ─► newest release for this machine ─► the user's yes ─► download beside the program ─► checksum
//!            ─► it says its version ─► renamed over the program
//! ```
//!
//! Until the rename nothing has changed. The checksums say that a file arrived as it was released; that the
//! release is the right one is as sure as the place it comes from.

mod install;
mod look;
mod release;
mod source;

pub use install::install;
pub use look::{look, newest_of};
pub use release::{Release, Version, newest};
pub use source::Source;
