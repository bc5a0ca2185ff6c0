//! Layered settings that know where they came from.
//!
//! [`load`] turns files, variables and flags into [`Settings`]; nothing else reads them. What a value may
//! be is decided in one function per kind (module `read`), which does not know the layer it works for;
//! the places in files come from the parsers, so that an error shows the line.
//!
//! ```text
//! built in < config_dir/config.* < config_dir/<repo-slug>/config.* < project_dir/config.* < variables < flags
//! ```

mod base;
mod edit;
mod entries;
mod env_file;
mod environment;
mod error;
mod fields;
mod file;
mod flags;
mod home;
mod json;
mod layer;
mod links;
mod load;
mod mounts;
mod network;
mod notify;
mod origin;
mod plain;
mod proxy;
mod read;
mod resources;
mod secrets;
mod settings;
mod show;
mod suggest;
mod tokens;
mod tree;
mod widening;
mod words;
mod yaml;

pub use base::ImageBase;
pub use edit::{Edit, EditError, add_to_list};
pub use entries::{Entry, entries};
pub use env_file::{EnvFiles, env_file, env_files};
pub use environment::{PREFIX, WrongVariable, from_variables, wrong_variables};
pub use error::{ConfigError, FileError};
pub use file::FILE_NAMES;
pub use flags::Flags;
pub use home::HomeFile;
pub use links::Followed;
pub use load::{Inputs, Loaded, load};
pub use mounts::{Mount, target as mount_target};
pub use origin::{Origin, Value};
pub use proxy::ProxySetting;
pub use secrets::{SECRET_FILES, SecretDefinition, SecretFiles, SecretSource, secret_files};
pub use settings::{KEYS, Key, Settings};
pub use widening::{ProjectLayer, Widening, widening};
pub use words::{
    AgentUpdates, AutoStop, HostCa, ImageEngine, LogLevel, NotifyAudio, QemuAccel, RuntimeChoice,
    UpgradeMode, Word,
};
