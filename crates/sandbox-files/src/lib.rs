//! Files of the host in folders that somebody else can write, such as whoever works in a sandbox: where a path leads,
//! link by link, and the content of a small file, whatever stands in its place.

mod regular;
mod walk;

pub use regular::{LastLink, read_bytes, read_text};
pub use walk::{Step, Walk};
