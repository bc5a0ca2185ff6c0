use fs_err as fs;
use sandbox_model::{CheckoutSlug, Digest, ImageRef, labels};
use sandbox_state::{Layout, Lock, LockMode};

use crate::base::{proxy, resolve};
use crate::context::write_context;
use crate::{
    BOOTSTRAP_REPOSITORY, BaseKind, BaseSetting, BuildRequest, Composed, Engine, Events, ImageError,
    RenderInput, Result, render,
};

/// What [`ensure`] needs to know: where to work, for whom, and from what.
#[derive(Debug, Clone)]
pub struct EnsureInput<'a> {
    /// Where its locks are, and the bases that are made here.
    pub layout: &'a Layout,
    /// Whose image it is: the reference has this in it.
    pub checkout: &'a CheckoutSlug,
    /// What decides the image's content.
    pub render: RenderInput<'a>,
    /// The user asked for a rebuild: every layer anew, on a newer base where there is one.
    pub force: bool,
}

/// The image of one checkout and agent, which is up to date now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltImage {
    /// The tag that it has in the engine.
    pub reference: ImageRef,
    /// The engine's id of the image.
    pub digest: Digest,
    /// `false`: it was up to date.
    pub built: bool,
}

/// Where the last stage has the content id.
const ID_ARGUMENT: &str = "${AGENTS_SANDBOX_DOCKERFILE_ID}";

/// Whether the image under the tag (with this label, if there is one) is not the one that was composed.
pub fn needs_build(force: bool, label_on_tag: Option<&str>, dockerfile_id: &str) -> bool {
    force || label_on_tag != Some(dockerfile_id)
}

/// Brings the image of one checkout and agent up to date.
///
/// Holds the build lock of that image, and the image store's lock as a user. A failure leaves the former
/// image under its name.
pub fn ensure(engine: &dyn Engine, input: &EnsureInput<'_>, events: &mut dyn Events) -> Result<BuiltImage> {
    let agent = input.render.recipe.agent;
    let reference = ImageRef::runner(input.checkout, agent);
    let mut wait = |path: &std::path::Path, mode, purpose: &str| {
        Lock::take(path, mode, purpose, |holder| events.waiting(&holder.to_string()))
    };
    let _store = wait(&input.layout.image_store_lock(), LockMode::Shared, "build")?;
    let _build = wait(&input.layout.build_lock(input.checkout, agent), LockMode::Exclusive, "build")?;

    let composed = render(&input.render)?;
    let current = engine.inspect(reference.as_str())?;
    let label = current.as_ref().and_then(|image| image.labels.get(labels::DOCKERFILE_ID));
    if let Some(image) = &current
        && !needs_build(input.force, label.map(String::as_str), &composed.dockerfile_id)
    {
        return Ok(BuiltImage { reference, digest: image.id.clone(), built: false });
    }
    let digest = build(engine, input, &reference, &composed, events)?;
    Ok(BuiltImage { reference, digest, built: true })
}

fn build(
    engine: &dyn Engine,
    input: &EnsureInput<'_>,
    reference: &ImageRef,
    composed: &Composed,
    events: &mut dyn Events,
) -> Result<Digest> {
    let mut args = composed.build_args.clone();
    let base = match &composed.base {
        BaseKind::Managed => {
            let base = resolve(engine, input.render.base, input.force, input.layout, events)?;
            args.push(("AGENTS_SANDBOX_BASE_IMAGE".into(), base.reference.clone()));
            format!("{}@{}", base.reference, base.id)
        }
        BaseKind::Custom(image) => custom_base(engine, input, image, events)?,
    };
    args.push(("AGENTS_SANDBOX_BASE".into(), base));
    if let Some(proxy) = proxy()? {
        args.push(("AGENTS_SANDBOX_APT_PROXY".into(), proxy));
    }

    let dir = tempfile::Builder::new().prefix("agents-sandbox-build-").tempdir()?;
    let files = dir.path().join("context");
    fs::create_dir(&files)?;
    write_context(&input.render.source.context, &composed.files, &files)?;
    let dockerfile = dir.path().join("Dockerfile");
    // As a literal: buildah takes a `LABEL` from its cache whatever an argument in it says, and the image of
    // another content, all of whose layers are the same, would carry the old id.
    fs::write(&dockerfile, composed.dockerfile.replace(ID_ARGUMENT, &composed.dockerfile_id))?;
    events.stage(&format!("building the image {reference}"));
    let request = BuildRequest {
        context: &files,
        dockerfile: &dockerfile,
        args: &args,
        tag: reference.as_str(),
        no_cache: input.force,
    };
    let digest = engine.build(&request, events)?;
    let built = engine.inspect(reference.as_str())?;
    match built.and_then(|image| image.labels.get(labels::DOCKERFILE_ID).cloned()) {
        Some(id) if id == composed.dockerfile_id => Ok(digest),
        // Without the label every run would build again.
        other => Err(ImageError::Answer {
            tool: engine.name().to_string(),
            problem: format!(
                "the new image carries the content id {other:?}, not {}",
                composed.dockerfile_id
            ),
        }),
    }
}

/// The project's own base as its label names it. One of ours is bootstrapped where it is missing; any other
/// is left to the build, which fetches it or says why not.
fn custom_base(
    engine: &dyn Engine,
    input: &EnsureInput<'_>,
    image: &str,
    events: &mut dyn Events,
) -> Result<String> {
    let suite = image.strip_prefix(BOOTSTRAP_REPOSITORY).and_then(|rest| rest.strip_prefix(':'));
    if let Some(Ok(setting)) = suite.map(|suite| format!("bootstrap:{suite}").parse::<BaseSetting>()) {
        let base = resolve(engine, &setting, input.force, input.layout, events)?;
        return Ok(format!("{}@{}", base.reference, base.id));
    }
    Ok(match engine.inspect(image) {
        Ok(Some(found)) => format!("{image}@{}", found.id),
        _ => image.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_content_or_the_user_causes_a_build() {
        assert!(!needs_build(false, Some("a"), "a"));
        assert!(needs_build(true, Some("a"), "a"));
        assert!(needs_build(false, Some("b"), "a"));
        assert!(needs_build(false, None, "a"));
    }
}
