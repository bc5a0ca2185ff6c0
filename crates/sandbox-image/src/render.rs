use std::path::Path;

use fs_err as fs;
use sandbox_model::AgentRecipe;

use crate::{
    BaseSetting, ClientSettings, ComposeInput, Composed, ContextError, HostCa, HostCaSetting, ProjectContext,
    ProjectDockerfile, Result, compose, guest_user,
};

/// What an image is made from, before anything is read.
#[derive(Debug, Clone)]
pub struct RenderInput<'a> {
    /// The project's `.agents-sandbox` folder; it need not exist.
    pub project_dir: &'a Path,
    pub base: &'a BaseSetting,
    pub recipe: &'a AgentRecipe,
    pub host_ca: HostCaSetting,
    pub client: &'a ClientSettings,
    /// The caller's own ids; `dev` gets them as [`guest_user`] says.
    pub uid: u32,
    pub gid: u32,
}

/// Composes the Dockerfile of a project without asking an engine.
pub fn render(input: &RenderInput<'_>) -> Result<Composed> {
    Ok(render_with_context(input)?.0)
}

pub(crate) fn render_with_context(input: &RenderInput<'_>) -> Result<(Composed, ProjectContext)> {
    let project = read_dockerfile(input.project_dir)?;
    let context = if project.uses_context {
        ProjectContext::scan(input.project_dir)?
    } else {
        ProjectContext::default()
    };
    let host_ca = HostCa::read(input.host_ca, input.client.ca_bundle.as_deref())?;
    let (uid, gid) = guest_user(input.uid, input.gid);
    let composed = compose(&ComposeInput {
        project: &project,
        context: &context,
        base: input.base,
        recipe: input.recipe,
        host_ca: &host_ca,
        client: input.client,
        uid,
        gid,
    })?;
    Ok((composed, context))
}

/// Reads the project's Dockerfile; it may be a link, but only to a file of the same checkout.
fn read_dockerfile(dir: &Path) -> Result<ProjectDockerfile> {
    let path = dir.join("Dockerfile");
    if let Err(error) = fs::symlink_metadata(&path) {
        return match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Ok(ProjectDockerfile::none()),
            _ => Err(error.into()),
        };
    }
    let real = fs::canonicalize(&path)?;
    let dir = fs::canonicalize(dir)?;
    if !real.starts_with(dir.parent().unwrap_or(&dir)) {
        return Err(ContextError::Escape { path, target: real }.into());
    }
    Ok(ProjectDockerfile::parse(&fs::read_to_string(&real)?)?)
}
