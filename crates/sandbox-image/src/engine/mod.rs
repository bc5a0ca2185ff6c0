//! Image engines: docker, podman and buildah behind one small trait.
//!
//! podman and buildah keep their images in a storage of ours and never touch the user's own. No text from
//! outside reaches an engine as an option: references follow `--`, and build arguments travel in the
//! environment, where other users of the machine cannot read them.

mod archive;
mod buildah;
mod docker;
mod failure;
mod find;
mod podman;
mod process;
mod steps;
mod storage;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sandbox_model::{ByteSize, Digest, SecretValue};

use crate::{Events, Result};

pub use archive::Archive;
pub use find::{Attempt, NoEngine, find, find_with_images};
pub(crate) use process::{capture, run};

/// The programs that can build an image here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineName {
    /// Its daemon builds, and keeps images where it always does.
    Docker,
    /// Without a daemon, in a storage of ours.
    Podman,
    /// Without a daemon, in the same storage.
    Buildah,
}

impl EngineName {
    /// In the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Docker, Self::Podman, Self::Buildah];

    /// The program's name, and the word in settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Buildah => "buildah",
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// `image.engine`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineSetting {
    /// The first of [`EngineName::ALL`] that works.
    #[default]
    Auto,
    /// This one or none.
    Only(EngineName),
}

/// A text that names no engine; it holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown image engine `{0}`; write auto, docker, podman or buildah")]
pub struct UnknownEngine(pub String);

impl FromStr for EngineSetting {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let name = EngineName::ALL.into_iter().find(|name| name.as_str() == text);
        name.map(Self::Only).ok_or_else(|| UnknownEngine(text.into()))
    }
}

/// Where engines without a daemon of their own keep what they have.
#[derive(Debug, Clone, Default)]
pub struct EngineSettings {
    /// `layout.engine()`.
    pub dir: PathBuf,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// docker's network for `RUN`, such as `host`; unset leaves it to docker.
    pub docker_network: Option<String>,
    /// Variables of engines that fetch images themselves; `None` is not to have one.
    pub environment: Vec<(&'static str, Option<SecretValue>)>,
}

/// An image as an engine describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineImage {
    /// The digest of its configuration, which the engines call its id.
    pub id: Digest,
    /// References without the `localhost/` that engines put in front.
    pub names: Vec<String>,
    /// What the engine says that it takes; buildah says it rounded.
    pub size: ByteSize,
    /// Seconds since 1970.
    pub created: i64,
    /// Those of this program among them.
    pub labels: BTreeMap<String, String>,
}

/// One build, as every engine is asked for it.
#[derive(Debug, Clone, Copy)]
pub struct BuildRequest<'a> {
    /// A folder with the files that may be copied.
    pub context: &'a Path,
    /// The composed file; it need not be in `context`.
    pub dockerfile: &'a Path,
    /// `NAME`, value.
    pub args: &'a [(String, String)],
    /// What the result is called; a reference of ours has no host in front.
    pub tag: &'a str,
    /// Builds every layer anew.
    pub no_cache: bool,
}

/// A program that builds and keeps images.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Which of them it is, for messages and for what only one of them needs.
    fn name(&self) -> EngineName;

    /// Looks only at what the engine has; `None` when it does not have the reference (or id).
    fn inspect(&self, reference: &str) -> Result<Option<EngineImage>>;

    /// Every image that carries our label, with or without a name.
    fn list_managed(&self) -> Result<Vec<EngineImage>>;

    /// Fetches an image from its registry, within `deadline`.
    fn pull(&self, reference: &str, deadline: Duration, events: &mut dyn Events) -> Result<()>;

    /// Builds, and returns the id of what the tag names then.
    fn build(&self, request: &BuildRequest<'_>, events: &mut dyn Events) -> Result<Digest>;

    /// The image as an uncompressed docker archive.
    fn save(&self, reference: &str) -> Result<Archive>;

    /// Forgets a reference, or an image by its id. Harmless when there is none.
    fn remove(&self, reference: &str) -> Result<()>;
}

/// References of ours are in no registry; engines with short names need that said.
fn local_name(reference: &str) -> String {
    if reference.starts_with("agents-sandbox/") { format!("localhost/{reference}") } else { reference.into() }
}

fn without_host(name: &str) -> String {
    name.strip_prefix("localhost/").unwrap_or(name).to_string()
}
