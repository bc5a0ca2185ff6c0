//! What the process may do, and how long it lives.

mod child;
pub(crate) mod lifeline;
pub(crate) mod owner;
pub(crate) mod trees;
pub(crate) mod walls;
