//! The image that a managed runner builds on: fetched from a registry, or bootstrapped from the machine's
//! own package mirror where no registry can be reached.

mod apt;
mod bootstrap;
mod resolve;
mod setting;

pub(crate) use apt::proxy;
pub(crate) use resolve::resolve;
pub use setting::{BOOTSTRAP_REPOSITORY, BaseSetting, DEFAULT_BASE, InvalidBase};
