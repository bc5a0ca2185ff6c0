//! Home volumes, as the user handles them. Which one is current stands in the state file and nowhere else;
//! it is written last, when the new volume is whole.

mod confined;
mod copy;
mod edit;
mod error;
mod graft;
mod list;
mod remove;
mod replace;
mod rest;

pub use edit::{Edit, GUEST_OLD_HOME, edit};
pub use error::VolumeError;
pub use list::{Volume, list};
pub(crate) use list::{VolumeFile, files};
pub use remove::{RemovedVolume, remove};
pub(crate) use replace::{How, make};
pub use replace::{Replaced, Replacement, migrate, replaceable, reset};

pub use crate::home_volume::abandon;
