//! Where runner images come from, as the other use cases see it.

use std::io::Read;

use sandbox_agents::profile;
use sandbox_image::{ClientSettings, EngineSetting, EngineSettings, EnsureInput, Events, RenderInput};
use sandbox_model::{AgentRecipe, Digest, Proxies};

use crate::prune::SeenUnnamed;
use crate::{BuildRequest, Context, Reporter, Result, Step};

/// An image that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineImage {
    /// The engine's id of it, under which the runtime keeps it as well.
    pub digest: Digest,
    /// It was built just now.
    pub built: bool,
}

/// The image room behind a seam, so that the rules of [`crate::up`] can be shown without an engine.
pub trait Images: Send + Sync {
    /// The id of everything that decides the image's content. Contacts no engine; costs milliseconds.
    fn content_id(&self, context: &Context<'_>, request: &BuildRequest) -> Result<String>;

    /// Builds the image where the engine does not have it, or where `request.rebuild`.
    fn ensure(&self, context: &Context<'_>, request: &BuildRequest) -> Result<EngineImage>;

    /// The image as a docker archive.
    fn archive(&self, context: &Context<'_>, request: &BuildRequest) -> Result<Box<dyn Read>>;

    /// The engine's images of ours that no name leads to any more. A maker of images without an engine
    /// has none.
    fn unnamed(&self, _context: &Context<'_>, _engine: EngineSetting) -> Result<Vec<SeenUnnamed>> {
        Ok(Vec::new())
    }

    /// Removes such an image; `false` when it has a name by now, or is gone.
    fn remove_unnamed(&self, _: &Context<'_>, _engine: EngineSetting, _id: &Digest) -> Result<bool> {
        Ok(false)
    }
}

/// The image engines of this machine.
#[derive(Debug, Clone, Default)]
pub struct EngineImages {
    /// What the host's own clients are told about proxies and package sources.
    pub client: ClientSettings,
    /// docker's network for `RUN`, such as `host`; unset leaves it to docker.
    pub docker_network: Option<String>,
}

impl EngineImages {
    /// What this host's clients are told, with the proxies that hold.
    fn client(&self, request: &BuildRequest) -> ClientSettings {
        self.client.clone().with_proxies(request.proxies.as_ref())
    }

    fn render<'a>(
        client: &'a ClientSettings,
        context: &Context<'_>,
        request: &'a BuildRequest,
        recipe: &'a AgentRecipe,
    ) -> RenderInput<'a> {
        RenderInput {
            source: &request.image.source,
            base: &request.image.base,
            recipe,
            host_ca: request.image.host_ca,
            docker: request.image.docker,
            client,
            uid: context.identity.uid,
            gid: context.identity.gid,
        }
    }

    fn settings(&self, context: &Context<'_>, wish: Option<&BuildRequest>) -> EngineSettings {
        // The host's loopback is that of no container.
        let on_loopback = |proxies: &Proxies| proxies.each().iter().any(|proxy| proxy.is_loopback());
        let here = wish.and_then(|wish| wish.proxies.as_ref()).is_some_and(on_loopback);
        EngineSettings {
            dir: context.layout.engine(),
            runtime_dir: self.client.runtime_dir.clone(),
            docker_network: self.docker_network.clone().or(here.then(|| "host".into())),
            environment: wish.map(|wish| self.client(wish).proxy_environment()).unwrap_or_default(),
        }
    }

    fn engine(
        &self,
        context: &Context<'_>,
        setting: EngineSetting,
        wish: Option<&BuildRequest>,
    ) -> Result<Box<dyn sandbox_image::Engine>> {
        Ok(sandbox_image::find(setting, &self.settings(context, wish))?)
    }
}

impl Images for EngineImages {
    fn content_id(&self, context: &Context<'_>, request: &BuildRequest) -> Result<String> {
        let recipe = recipe(request)?;
        let client = self.client(request);
        Ok(sandbox_image::render(&Self::render(&client, context, request, &recipe))?.dockerfile_id)
    }

    fn ensure(&self, context: &Context<'_>, request: &BuildRequest) -> Result<EngineImage> {
        let engine = self.engine(context, request.image.engine, Some(request))?;
        context.reporter.verbose(&format!("the image engine is {}", engine.name()));
        let (recipe, client) = (recipe(request)?, self.client(request));
        let input = EnsureInput {
            layout: &context.layout,
            checkout: &request.project.checkout,
            render: Self::render(&client, context, request, &recipe),
            force: request.rebuild,
        };
        let mut progress = Progress { reporter: context.reporter, step: None };
        let image = sandbox_image::ensure(engine.as_ref(), &input, &mut progress)?;
        progress.finish();
        Ok(EngineImage { digest: image.digest, built: image.built })
    }

    fn archive(&self, context: &Context<'_>, request: &BuildRequest) -> Result<Box<dyn Read>> {
        let engine = self.engine(context, request.image.engine, None)?;
        Ok(Box::new(engine.save(request.reference().as_str())?))
    }

    fn unnamed(&self, context: &Context<'_>, engine: EngineSetting) -> Result<Vec<SeenUnnamed>> {
        let settings = self.settings(context, None);
        let Some(engine) = sandbox_image::find_with_images(engine, &settings)? else { return Ok(Vec::new()) };
        let managed = engine.list_managed()?;
        let unnamed = managed.into_iter().filter(|image| image.names.is_empty());
        Ok(unnamed
            .map(|image| SeenUnnamed { id: image.id, created: image.created, size: image.size })
            .collect())
    }

    fn remove_unnamed(&self, context: &Context<'_>, engine: EngineSetting, id: &Digest) -> Result<bool> {
        let engine = self.engine(context, engine, None)?;
        if !engine.inspect(id.hex())?.is_some_and(|image| image.names.is_empty()) {
            return Ok(false);
        }
        engine.remove(id.hex())?;
        Ok(true)
    }
}

/// The Dockerfile that an image would be built from. Contacts no engine.
pub fn dockerfile(context: &Context<'_>, images: &EngineImages, request: &BuildRequest) -> Result<String> {
    let recipe = recipe(request)?;
    let client = images.client(request);
    Ok(sandbox_image::render(&EngineImages::render(&client, context, request, &recipe))?.dockerfile)
}

fn recipe(request: &BuildRequest) -> Result<AgentRecipe> {
    let version = request.agent_version.as_ref().map(|wanted| wanted.version.clone());
    Ok(profile(request.agent)?.recipe(version))
}

/// What a build says, as steps.
struct Progress<'a> {
    reporter: &'a dyn Reporter,
    step: Option<Box<dyn Step + 'a>>,
}

impl Progress<'_> {
    fn finish(&mut self) {
        if let Some(step) = self.step.take() {
            step.finish(None);
        }
    }
}

impl Events for Progress<'_> {
    fn stage(&mut self, text: &str) {
        self.finish();
        self.step = Some(self.reporter.begin(text));
    }

    fn step(&mut self, instruction: &sandbox_image::Step) {
        let Some(step) = &mut self.step else { return };
        if let Some((position, count)) = instruction.position {
            step.progress(position.into(), Some(count.into()));
        }
        step.detail(&instruction.text);
    }

    fn log(&mut self, line: &str) {
        self.reporter.verbose(line);
    }

    fn waiting(&mut self, holder: &str) {
        self.stage(&format!("waiting for {holder} to let go of the image"));
    }

    fn cancelled(&self) -> bool {
        self.reporter.cancelled()
    }
}
