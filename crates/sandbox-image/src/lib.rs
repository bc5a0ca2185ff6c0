//! The runner image: composing its Dockerfile, building it, and handing it over as a docker archive.
//!
//! [`render`] is pure but for reading the project's folder and the host's certificates, and contacts no
//! engine. [`ensure`] finds out whether the image must be built, gets a base, and builds. Everything is
//! blocking; whoever wants to see progress passes [`Events`].

mod base;
mod build;
mod client;
mod compose;
mod context;
mod engine;
mod error;
mod events;
mod files;
mod host_ca;
mod render;
mod source;

pub use base::{BOOTSTRAP_REPOSITORY, BaseSetting, DEFAULT_BASE, InvalidBase};
pub use build::{BuiltImage, EnsureInput, ensure, needs_build};
pub use client::ClientSettings;
pub use compose::{
    BaseKind, ComposeError, ComposeInput, Composed, ContextFile, ProjectDockerfile, RESERVED_STAGES, compose,
    guest_user,
};
pub use context::{ContextEntry, ContextError, ProjectContext};
pub use engine::{
    Archive, Attempt, BuildRequest, Engine, EngineImage, EngineName, EngineSetting, EngineSettings, NoEngine,
    UnknownEngine, find, find_with_images,
};
pub use error::{BuildFailure, ImageError, Result};
pub use events::{Events, Silent, Step};
pub use host_ca::{HostCa, HostCaSetting, UnknownHostCa};
pub use render::{RenderInput, render};
pub use sandbox_model::AgentRecipe;
pub use source::ProjectSource;
