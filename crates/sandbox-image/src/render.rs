use sandbox_model::AgentRecipe;

use crate::{
    BaseSetting, ClientSettings, ComposeInput, Composed, HostCa, HostCaSetting, ProjectSource, Result,
    compose, guest_user,
};

/// What an image is made from.
#[derive(Debug, Clone)]
pub struct RenderInput<'a> {
    /// The project's Dockerfile and files, as they were when they were read.
    pub source: &'a ProjectSource,
    /// What our stages build on where the project has no base of its own.
    pub base: &'a BaseSetting,
    /// The agent, and its version.
    pub recipe: &'a AgentRecipe,
    /// Whether to look for the host's own certificates.
    pub host_ca: HostCaSetting,
    /// A Docker engine joins the image, also where the project does not ask for it.
    pub docker: bool,
    /// Proxies and package sources, for the build alone.
    pub client: &'a ClientSettings,
    /// The caller's own ids; `dev` gets them as [`guest_user`] says.
    pub uid: u32,
    /// Of the caller, likewise.
    pub gid: u32,
}

/// Composes the Dockerfile of a project without asking an engine.
pub fn render(input: &RenderInput<'_>) -> Result<Composed> {
    let host_ca = HostCa::read(input.host_ca, input.client.ca_bundle.as_deref())?;
    let (uid, gid) = guest_user(input.uid, input.gid);
    Ok(compose(&ComposeInput {
        project: &input.source.dockerfile,
        context: &input.source.context,
        base: input.base,
        recipe: input.recipe,
        host_ca: &host_ca,
        docker: input.docker,
        client: input.client,
        uid,
        gid,
    })?)
}
