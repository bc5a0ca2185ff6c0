//! What our folders take on disk, by what it is for, and what pruning would free.

mod category;
mod usage;
mod walk;

pub use category::Category;
pub use usage::{CategoryUsage, Item, Usage, usage};
pub(crate) use walk::allocated;
