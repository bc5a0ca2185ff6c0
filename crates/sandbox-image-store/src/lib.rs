//! What both drivers keep of images: which content a reference means, what a content is, and a way to copy a
//! folder out of its layers; and the empty disk that a sandbox writes to above an image. Where the layers themselves are, and who makes them, is each driver's own.
//!
//! ```text
//! references/<hash of the name>.json   which digest a reference means
//! <where the driver wants it>.json     one content: environment, labels, size
//! ```

mod content;
mod counted;
mod error;
mod export;
pub mod full;
mod index;
mod root_disk;

pub use content::Content;
pub use counted::Counted;
pub use error::from_state;
pub use export::export_dir;
pub use index::{ImageIndex, Places};
pub use root_disk::make_root_disk;
