//! From a project's Dockerfile and an agent's recipe to one Dockerfile with our stages. Pure.

mod content_id;
mod docker;
mod project;
mod stages;
mod user;

use sandbox_model::AgentRecipe;

use crate::{BaseSetting, ClientSettings, HostCa, ProjectContext};

pub use project::{BaseKind, ProjectDockerfile, RESERVED_STAGES};
pub use user::guest_user;

/// Where our own files lie in the build context; no project may have a folder of this name.
pub(crate) const CONTEXT_DIR: &str = ".agents-sandbox-build";

/// Everything that decides what an image contains.
#[derive(Debug, Clone)]
pub struct ComposeInput<'a> {
    /// The project's own stages, parsed; none where it has no Dockerfile.
    pub project: &'a ProjectDockerfile,
    /// The project's files that a `COPY` may reach; empty when the Dockerfile copies none.
    pub context: &'a ProjectContext,
    /// What the first of our stages builds on where the project says nothing of its own.
    pub base: &'a BaseSetting,
    /// How the agent gets in.
    pub recipe: &'a AgentRecipe,
    /// Certificates that the build and the guest trust beside the distribution's.
    pub host_ca: &'a HostCa,
    /// A Docker engine joins the image, also where the project does not ask for it.
    pub docker: bool,
    /// Passed to the build as arguments; not part of the content id.
    pub client: &'a ClientSettings,
    /// Who `dev` is; see [`guest_user`]. Not part of the content id.
    pub uid: u32,
    /// The group of `dev`, likewise.
    pub gid: u32,
}

/// A file that joins the project's own in the build context. All are readable by everyone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// Relative to the context's root.
    pub path: String,
    /// Bytes as they are: a script or a certificate.
    pub content: Vec<u8>,
}

/// One Dockerfile, and what an engine has to be given with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    /// The whole text, with the argument for [`Composed::dockerfile_id`] still open.
    pub dockerfile: String,
    /// 64 hex digits over everything that decides the content: Dockerfile, files, agent version.
    pub dockerfile_id: String,
    /// `NAME`, value; without the base image, which only an engine can settle.
    pub build_args: Vec<(String, String)>,
    /// What its `COPY` instructions name beside the project's files.
    pub files: Vec<ContextFile>,
    /// `Managed` needs a base image from us, named by the argument `AGENTS_SANDBOX_BASE_IMAGE`.
    pub base: BaseKind,
}

/// Why a Dockerfile cannot be composed: the project's, or the settings, have to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    #[error("the project's Dockerfile, line {line}, column {column}: {problem}")]
    Syntax { line: usize, column: usize, problem: String },
    #[error("the project's Dockerfile declares the stage `{0}`, a name that is reserved for agents-sandbox")]
    ReservedStage(String),
    #[error("the project's Dockerfile declares the stage `{0}` twice")]
    DuplicateStage(String),
    #[error("the project's Dockerfile sets the escape character to `{0}`; only the backslash is supported")]
    Escape(char),
    #[error(
        "the project's Dockerfile declares the build argument `{0}`, a name that is reserved for agents-sandbox"
    )]
    ReservedArgument(String),
    #[error(
        "an earlier stage of the project's Dockerfile builds on {0}, but the last stage does not; \
         build the last stage on it too, or the earlier one on another image"
    )]
    MixedBases(String),
    #[error("the agent's recipe is not usable: {0}")]
    Recipe(String),
    #[error("the user `dev` cannot have the uid {uid} and the gid {gid}: both must be above 0")]
    User { uid: u32, gid: u32 },
}

/// Composes the Dockerfile of one checkout and agent.
pub fn compose(input: &ComposeInput<'_>) -> Result<Composed, ComposeError> {
    if input.uid == 0 || input.gid == 0 {
        return Err(ComposeError::User { uid: input.uid, gid: input.gid });
    }
    stages::check_recipe(input.recipe)?;
    let dockerfile = stages::dockerfile(input);
    let files = stages::files(input);
    let version = input.recipe.version.as_deref().unwrap_or_default();
    let dockerfile_id = content_id::content_id(&dockerfile, &files, input.context, version);

    let mut build_args = vec![
        ("USER_UID".to_string(), input.uid.to_string()),
        ("USER_GID".to_string(), input.gid.to_string()),
        (input.recipe.version_arg.to_string(), version.to_string()),
        ("AGENTS_SANDBOX_DOCKERFILE_ID".to_string(), dockerfile_id.clone()),
    ];
    build_args.extend(input.client.build_args());
    Ok(Composed { dockerfile, dockerfile_id, build_args, files, base: input.project.base.clone() })
}

#[cfg(test)]
mod tests;
