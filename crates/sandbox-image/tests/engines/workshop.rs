use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox_image::{
    BaseSetting, BuiltImage, ClientSettings, Engine, EngineName, EngineSetting, EngineSettings, EnsureInput,
    Events, HostCaSetting, ImageError, ProjectSource, RenderInput, Step, ensure, find,
};
use sandbox_model::{AgentName, AgentRecipe, CheckoutSlug, ImageRef};
use sandbox_state::{Environment, Layout};

use crate::archive::Image;

/// Where the ordinary user's process finds its home; see `user.rs`.
pub const HOME: &str = "SANDBOX_IMAGE_TEST_HOME";
pub const SUITE: &str = "trixie";

/// One user's whole world: home, project, engine.
pub struct Workshop {
    home: PathBuf,
    pub layout: Layout,
    pub engine: Box<dyn Engine>,
    pub checkout: CheckoutSlug,
    pub recipe: AgentRecipe,
    pub ca_bundle: Option<PathBuf>,
    pub base: BaseSetting,
}

#[derive(Default)]
pub struct Log {
    pub lines: Vec<String>,
    pub stages: Vec<String>,
    /// The build is cancelled as soon as this line appears.
    pub cancel_at: Option<&'static str>,
}

impl Events for Log {
    fn stage(&mut self, text: &str) {
        self.stages.push(text.into());
    }

    fn step(&mut self, _step: &Step) {}

    fn log(&mut self, line: &str) {
        self.lines.push(line.into());
    }

    fn waiting(&mut self, _holder: &str) {}

    fn cancelled(&self) -> bool {
        self.cancel_at.is_some_and(|line| self.lines.iter().any(|seen| seen == line))
    }
}

/// The bootstrapped root file system in a home.
pub fn rootfs(home: &Path) -> PathBuf {
    home.join(".local/share/agents-sandbox/engine/bases").join(SUITE).join("rootfs.tar")
}

/// The home of the process that runs a flow.
pub fn own_home() -> PathBuf {
    PathBuf::from(std::env::var_os(HOME).unwrap())
}

impl Workshop {
    pub fn open() -> Self {
        Self::open_with(EngineName::Buildah)
    }

    pub fn open_with(name: EngineName) -> Self {
        let home = own_home();
        for dir in [".agents-sandbox", "run"] {
            std::fs::create_dir_all(home.join(dir)).unwrap();
        }
        std::fs::set_permissions(home.join("run"), PermissionsExt::from_mode(0o700)).unwrap();
        let environment = Environment { home: Some(home.clone()), ..Environment::default() };
        let layout = Layout::new(&environment).unwrap();
        let settings = EngineSettings {
            dir: layout.engine(),
            runtime_dir: Some(home.join("run")),
            // The tests' own docker has no network of its own.
            docker_network: Some("host".into()),
            environment: Vec::new(),
        };
        let engine = find(EngineSetting::Only(name), &settings).unwrap();
        Self {
            checkout: CheckoutSlug::new("work", &home),
            home,
            layout,
            engine,
            recipe: stub_recipe(),
            ca_bundle: None,
            base: format!("bootstrap:{SUITE}").parse().unwrap(),
        }
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home.join(".agents-sandbox").join(name), text).unwrap();
    }

    pub fn write_program(&self, name: &str, text: &str) {
        let path = self.home.join(".agents-sandbox").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// The ids that `dev` must have.
    pub fn dev() -> (u32, u32) {
        sandbox_image::guest_user(rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
    }

    /// Mounts of builds that are under way, or were left behind.
    pub fn mounts(&self) -> Vec<String> {
        let storage = self.layout.engine().join("storage/overlay/");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.lines().filter(|line| line.contains(&*storage.to_string_lossy())).map(Into::into).collect()
    }

    /// Folders of working containers.
    pub fn containers(&self) -> usize {
        let dir = self.layout.engine().join("storage/overlay-containers");
        std::fs::read_dir(dir).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
    }

    pub fn reference(&self) -> ImageRef {
        ImageRef::runner(&self.checkout, self.recipe.agent)
    }

    pub fn ensure(&self, log: &mut Log, force: bool) -> Result<BuiltImage, ImageError> {
        let client = ClientSettings { ca_bundle: self.ca_bundle.clone(), ..ClientSettings::from_process() };
        let source = ProjectSource::read(&self.home.join(".agents-sandbox"))?;
        let input = EnsureInput {
            layout: &self.layout,
            checkout: &self.checkout,
            force,
            render: RenderInput {
                source: &source,
                base: &self.base,
                recipe: &self.recipe,
                host_ca: HostCaSetting::Auto,
                docker: false,
                client: &client,
                uid: rustix::process::getuid().as_raw(),
                gid: rustix::process::getgid().as_raw(),
            },
        };
        ensure(&*self.engine, &input, log)
    }

    pub fn image(&self) -> Image {
        Image::read(self.engine.save(self.reference().as_str()).unwrap())
    }

    pub fn home(&self) -> &Path {
        &self.home
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let storage = self.layout.engine().join("storage");
        if rustix::process::geteuid().is_root() {
            // Root's storage stays mounted on itself.
            let _ = Command::new("umount").arg(storage.join("overlay")).status();
        } else {
            // Files of other ids of this user can only be removed from inside its namespace.
            let _ = Command::new("buildah").args(["unshare", "rm", "-rf", "--"]).arg(storage).status();
        }
    }
}

/// An agent that is there in no time.
fn stub_recipe() -> AgentRecipe {
    AgentRecipe {
        agent: AgentName::OPENCODE,
        version_arg: "OPENCODE_VERSION",
        version: Some("9.9.9".into()),
        install: "printf '#!/bin/sh\\necho %s\\n' \"$OPENCODE_VERSION\" > /opt/agents-sandbox/bin/opencode\n\
                  chmod 0755 /opt/agents-sandbox/bin/opencode\n"
            .into(),
        binary: "opencode".into(),
        image_env: vec![("OPENCODE_DISABLE_AUTOUPDATE".into(), "true".into())],
        needs_node: false,
    }
}
