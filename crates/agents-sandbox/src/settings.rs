//! What is meant: the settings of every layer, with what was typed on top, as plain values.

use std::error::Error;
use std::fmt::Display;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::available_parallelism;

use sandbox_config::{
    AutoStop, Flags, HomeFile, Inputs, Loaded, Mount, Origin, ProjectLayer, Settings, Value, load,
    wrong_variables,
};
use sandbox_lifecycle::{
    BuildRequest, HomeMapping, ImageSettings, Project, ProvisionSettings, SandboxSettings, Target, UpRequest,
    walls,
};
use sandbox_model::{ExtraMount, PROXY_FORMS, Proxies, Resources, SecretSpec};
use sandbox_state::writable_folders;

use crate::agent_version;
use crate::app::{self, App};
use crate::approval::Reviewed;
use crate::commands::args::{AgentArg, PrepareArgs};
use crate::error::CommandError;
use crate::limits;
use crate::project;
use crate::reach::{self, Asked};
use crate::secrets;
use crate::ssh::Ssh;

/// The process's environment, as far as it is text.
pub fn variables() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Which files settings are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    All,
    /// Without the project's.
    Own,
    None,
}

/// The project in the current folder, and the settings that hold there.
#[derive(Debug)]
pub struct Meant {
    pub project: Project,
    pub settings: Settings,
    /// What the project's own file sets: not to be acted on before it is approved.
    pub layer: Option<ProjectLayer>,
    /// Why no file was read: one of the user's own is broken.
    unread: Option<CommandError>,
    /// Why the project's file was not, which stands above them.
    project_unread: Option<CommandError>,
    /// A variable says which agent, and what it says is none.
    agent_unheard: Option<CommandError>,
}

impl Meant {
    /// Reads every layer; `flags` are on top. Tells the user what the layers give reason to.
    pub fn resolve(app: &App, flags: Flags) -> Result<Self, CommandError> {
        Self::resolve_with(app, flags, variables(), Files::All)
    }

    /// [`Meant::resolve`] for commands that end a sandbox or look at one. Whoever works in it can break the
    /// project's file, and must not keep its user from that; nor does a slip in the user's own, or in a variable.
    pub fn resolve_whatever_files_say(app: &App, flags: &Flags) -> Result<Self, CommandError> {
        let meant = Self::resolve_what_can_be_read(app, flags)?;
        meant.tell_unread(app);
        Ok(meant)
    }

    fn resolve_what_can_be_read(app: &App, flags: &Flags) -> Result<Self, CommandError> {
        let mut environment = variables();
        let wrong = wrong_variables(&environment);
        environment.retain(|(name, _)| !wrong.iter().any(|wrong| wrong.variable == *name));
        // Those about the program itself were told when it began.
        for wrong in wrong.iter().filter(|wrong| !app::OWN.contains(&wrong.setting)) {
            app.console.warning(&format!("{}; it is left out", wrong.error));
        }
        let resolve = |files| Self::resolve_with(app, flags.clone(), environment.clone(), files);
        let meant = resolve(Files::All).or_else(|error| {
            if let Ok(meant) = resolve(Files::Own) {
                return Ok(Self { project_unread: Some(error), ..meant });
            }
            let meant = resolve(Files::None)?;
            Ok::<_, CommandError>(Self { unread: Some(error), ..meant })
        })?;
        let agent = wrong.into_iter().find(|wrong| wrong.setting == "agent");
        Ok(Self { agent_unheard: agent.map(|wrong| wrong.error.into()), ..meant })
    }

    fn tell_unread(&self, app: &App) {
        let what =
            [("all files of settings", &self.unread), ("the project's settings", &self.project_unread)];
        for (what, error) in what {
            if let Some(error) = error {
                app.console.warning(&format!("{what} are left out: {}", error.message));
            }
        }
    }

    /// Nobody typed which agent is meant, and what says it otherwise was left out.
    const fn guesses_agent(&self) -> bool {
        match self.settings.agent.origin {
            Origin::Default => {
                self.unread.is_some() || self.project_unread.is_some() || self.agent_unheard.is_some()
            }
            Origin::File { .. } => self.project_unread.is_some() || self.agent_unheard.is_some(),
            Origin::Env { .. } => self.agent_unheard.is_some(),
            Origin::Flag { .. } => false,
        }
    }

    fn resolve_with(
        app: &App,
        flags: Flags,
        environment: Vec<(String, String)>,
        files: Files,
    ) -> Result<Self, CommandError> {
        let project = project::discover()?;
        if files == Files::All {
            project::check_settings_folder(&project.config_dir)?;
        }
        let layout = App::layout()?;
        let inputs = Inputs {
            config_dir: if files == Files::None { PathBuf::new() } else { layout.config },
            repo_slug: project.repo.clone(),
            project_dir: (files == Files::All).then(|| project.config_dir.clone()),
            environment,
            flags: Flags { yes: app.typed_yes(), ..flags },
        };
        let Loaded { mut settings, warnings, project: layer } = load(&inputs)?;
        settings.default_provider(sandbox_lifecycle::profile(settings.agent.value)?.provider);
        app.adopt(&settings);
        for warning in warnings {
            app.console.warning(&warning);
        }
        Ok(Self { project, settings, layer, unread: None, project_unread: None, agent_unheard: None })
    }

    /// Whether what holds of a setting is what the project's own file says.
    pub fn is_the_projects(&self, origin: impl Fn(&Settings) -> &Origin) -> bool {
        let said = self.layer.as_ref().map(|layer| origin(&layer.settings));
        said.is_some_and(|said| *said != Origin::Default && said == origin(&self.settings))
    }

    pub fn target(&self) -> Target {
        Target { checkout: self.project.checkout.clone(), agent: self.settings.agent.value }
    }

    pub fn up_request(
        &self,
        app: &App,
        args: &PrepareArgs,
        verb: &'static str,
        reviewed: Reviewed,
    ) -> Result<UpRequest, CommandError> {
        limits::check(&self.settings, limits::Host::here())?;
        let layout = App::layout()?;
        let mounts = self.mounts()?;
        // Only a file that holds a secret needs them here.
        let walls = if reviewed.secrets().secrets.is_empty() {
            Vec::new()
        } else {
            walls(&layout, &self.project, &mounts)?
        };
        let secrets = secrets::resolve(&layout, reviewed.secrets(), &walls)?;
        let build = self.build_request(args.image.rebuild, args.image.agent_version.as_deref(), &reviewed)?;
        let settings = self.sandbox(app, &reviewed, secrets.specs, mounts)?;
        // Values stand in definitions as well; from here on the request alone has them.
        drop(reviewed);
        Ok(UpRequest {
            project: build.project,
            agent: build.agent,
            settings,
            secret_values: secrets.values,
            proxies: build.proxies,
            provision: self.provision(),
            image: build.image,
            rebuild: build.rebuild,
            agent_version: build.agent_version,
            keep: args.keep,
            verb,
        })
    }

    /// What is built is what was reviewed, whatever the files say by now.
    ///
    /// `agent_version` was typed; without it the image gets the version that its records say.
    pub fn build_request(
        &self,
        rebuild: bool,
        agent_version: Option<&str>,
        reviewed: &Reviewed,
    ) -> Result<BuildRequest, CommandError> {
        let (agent_version, rebuild) = agent_version::wanted(&self.target(), agent_version, rebuild)?;
        Ok(BuildRequest {
            project: self.project.clone(),
            agent: self.settings.agent.value,
            image: image(&self.settings, reviewed)?,
            rebuild,
            agent_version,
            proxies: proxies(&self.settings)?,
        })
    }

    /// What is copied into the home.
    pub fn provision(&self) -> ProvisionSettings {
        let settings = &self.settings;
        let mapping = |file: &HomeFile| HomeMapping {
            source: file.source.clone(),
            startup: file.startup,
            root: file.root,
        };
        ProvisionSettings {
            home: settings.home.iter().map(|(path, file)| (path.clone(), mapping(&file.value))).collect(),
            host_config: settings.provision_host_config.value,
            habits: settings.provision_habits.value,
            host_home: std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
        }
    }

    fn sandbox(
        &self,
        app: &App,
        reviewed: &Reviewed,
        secrets: Vec<SecretSpec>,
        mounts: Vec<ExtraMount>,
    ) -> Result<SandboxSettings, CommandError> {
        let settings = &self.settings;
        let cpus = match settings.cpus.value {
            0 => available_parallelism().map_or(1, NonZero::get),
            count => usize::from(count),
        };
        let mut env = reviewed.env().clone();
        let ssh = Ssh::resolve(app, settings, &self.project.root, &env)?;
        env.extend(ssh.env);
        Ok(SandboxSettings {
            resources: Resources {
                cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
                memory: settings.memory.value,
            },
            disk_size: settings.disk_size.value,
            tmp_size: settings.tmp_size.value,
            workspace_quota: settings.workspace_quota.value,
            network: settings.network_policy(),
            mounts,
            ports: settings.port_forwards(),
            secrets,
            env,
            ssh_agent: ssh.offer,
            sleep: settings.auto_stop.value == AutoStop::Sleep,
            auto_stop_timeout: settings.auto_stop_timeout.value,
            auto_stop_on_active_sessions: settings.auto_stop_on_active_sessions.value,
            auto_stop_max_session_retries: settings.auto_stop_max_session_retries.value,
        })
    }
}

/// More than this is a mistake.
const MOST_MOUNTS: usize = 16;

impl Meant {
    /// Those of the settings, and what git needs.
    pub fn mounts(&self) -> Result<Vec<ExtraMount>, CommandError> {
        let asked = mounts(&self.settings)?;
        let mut mounts: Vec<ExtraMount> = asked.iter().map(|asked| asked.mount.clone()).collect();
        let repository = project::repository_mount(&self.project, &mounts);
        // Mostly there is no link, and then nobody looks at what others write.
        let linked = asked.iter().any(|asked| !asked.links.is_empty());
        let written = if linked { writable_folders(&App::layout()?)? } else { Vec::new() };
        reach::check(&asked, &self.project.root, repository.as_ref(), &written)?;
        mounts.extend(repository);
        // What is mounted in another comes after it.
        mounts.sort_by(|a, b| a.target.cmp(&b.target));
        Ok(mounts)
    }
}

/// The folders and files as they are now: a link in a source is followed once, here. One that is missing only
/// keeps a sandbox from starting.
fn mounts(settings: &Settings) -> Result<Vec<Asked>, CommandError> {
    let resolve = |(target, mount): (&String, &Value<Mount>)| {
        let Mount { source, readonly } = &mount.value;
        let (place, links) = match mount.value.resolve() {
            Ok(found) => (found.place, found.links),
            Err(error) => {
                let source = source.display();
                return Err(CommandError::new(format!(
                    "{source}, which is mounted at {target}, cannot be used: {error}"
                ))
                .hint(format!(
                    "it is asked for by {}; a mount is a folder or a file that exists",
                    mount.origin
                )));
            }
        };
        Ok(Asked {
            mount: ExtraMount { target: target.clone(), source: place, readonly: *readonly },
            written: source.clone(),
            links,
            origin: mount.origin.to_string(),
        })
    };
    if settings.mounts.len() > MOST_MOUNTS {
        let count = settings.mounts.len();
        return Err(CommandError::new(format!(
            "{count} mounts are too many: a sandbox has at most {MOST_MOUNTS}"
        ))
        .hint("mount a folder that holds several of them"));
    }
    settings.mounts.iter().map(resolve).collect()
}

fn image(settings: &Settings, reviewed: &Reviewed) -> Result<ImageSettings, CommandError> {
    Ok(ImageSettings {
        engine: same(settings.image_engine.value)?,
        base: same(&settings.image_base.value)?,
        host_ca: same(settings.image_host_ca.value)?,
        docker: settings.docker.value,
        source: reviewed.source(),
    })
}

/// Through which proxies this host reaches the world, with their passwords.
pub fn proxies(settings: &Settings) -> Result<Option<Proxies>, CommandError> {
    settings.proxies(|name| std::env::var(name).ok()).map_err(|error| {
        CommandError::from_chain(&error)
            .hint(PROXY_FORMS)
            .hint("`network.proxy` in your settings stands above the variables; `none` is to use none")
    })
}

/// One word in two vocabularies: that of the settings, and that of the room that does it.
pub fn same<T: FromStr>(word: impl Display) -> Result<T, CommandError>
where
    T::Err: Error + 'static,
{
    word.to_string().parse().map_err(|error| CommandError::from_chain(&error))
}

/// What holds in the checkout at `root`, as a run there without flags would read it.
pub fn in_checkout(root: &Path) -> Result<Settings, CommandError> {
    let checkout = sandbox_checkout::discover(root)?;
    project::check_settings_folder(&checkout.project_dir)?;
    let inputs = Inputs {
        config_dir: App::layout()?.config,
        repo_slug: Some(checkout.repo_slug),
        project_dir: Some(checkout.project_dir),
        environment: variables(),
        flags: Flags::default(),
    };
    Ok(load(&inputs)?.settings)
}

/// The sandbox that a command without a name means: this folder's, of the agent that was typed or set.
pub fn target(app: &App, agent: &AgentArg) -> Result<Target, CommandError> {
    let meant = Meant::resolve_whatever_files_say(app, &agent.flags())?;
    if meant.guesses_agent() {
        let agent = meant.settings.agent.value;
        app.console.warning(&format!("so the sandbox of {agent} is meant; --agent names another"));
    }
    Ok(meant.target())
}

/// [`target`] of a command that takes its sandbox away, and what sleeps in it: no guess is enough for that.
pub fn target_to_remove(app: &App, agent: &AgentArg) -> Result<Target, CommandError> {
    let mut meant = Meant::resolve_what_can_be_read(app, &agent.flags())?;
    if meant.guesses_agent()
        && let Some(error) = [&mut meant.agent_unheard, &mut meant.unread, &mut meant.project_unread]
            .into_iter()
            .find_map(Option::take)
    {
        return Err(error.hint("`--agent` names the sandbox that is meant, whatever else says one"));
    }
    meant.tell_unread(app);
    Ok(meant.target())
}
