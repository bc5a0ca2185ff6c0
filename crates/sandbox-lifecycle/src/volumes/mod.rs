//! Home volumes, as the user handles them. Which one is current stands in the state file and nowhere else;
//! it is written last, when the new volume is whole.

mod copy;
mod edit;
mod error;
mod graft;
mod list;
mod remove;
mod replace;
mod rest;

pub use edit::{Edit, edit};
pub use error::VolumeError;
pub use list::{Volume, list};
pub(crate) use list::{VolumeFile, files};
pub use remove::{RemovedVolume, remove};
pub(crate) use replace::{How, make};
pub use replace::{Replaced, Replacement, migrate, reset};
