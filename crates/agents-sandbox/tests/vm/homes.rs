//! Home volumes on real machines: they outlive them, and a migration carries everything over.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox_agents::profiles;
use sandbox_lifecycle::volumes::{GUEST_OLD_HOME, Replacement, edit, migrate};
use sandbox_lifecycle::{
    BuildRequest, Context, EngineImage, Identity, ImageSettings, Images, LifecycleError, Project,
    ProvisionSettings, SandboxSettings, Silent, Target, Up, UpRequest, exec_command, kill, remove, stop, up,
};
use sandbox_model::{
    AgentName, ByteSize, CheckoutSlug, Digest, NetworkPolicy, Resources, SandboxName, VolumeName,
};
use sandbox_runtime::Runtime;
use sandbox_runtime_qemu::QemuRuntime;
use sandbox_state::{Layout, ProjectState, read_record};

use crate::{contract, image, place};

type Outcome = Result<(), String>;

type Case = (&'static str, fn() -> Outcome);

pub const CASES: &[Case] = &[
    ("a_home_outlives_stop_kill_and_removal", outlives),
    ("a_migration_carries_the_home_over", carries_over),
    ("an_edited_home_has_the_old_one_beside_it", edited),
];

/// A checkout of its own, over the store that all tests share.
struct House {
    runtime: Arc<QemuRuntime>,
    layout: Layout,
    archive: (PathBuf, Digest),
    scratch: tempfile::TempDir,
}

/// The contract's image, as an engine would hand it over.
struct OneImage(PathBuf, Digest);

impl Images for OneImage {
    fn content_id(&self, _: &Context<'_>, _: &BuildRequest) -> Result<String, LifecycleError> {
        Ok(self.1.hex().into())
    }

    fn ensure(&self, _: &Context<'_>, _: &BuildRequest) -> Result<EngineImage, LifecycleError> {
        Ok(EngineImage { digest: self.1.clone(), built: false })
    }

    fn archive(&self, _: &Context<'_>, _: &BuildRequest) -> Result<Box<dyn Read>, LifecycleError> {
        Ok(Box::new(fs::File::open(&self.0)?))
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl House {
    fn new() -> Result<Self, String> {
        let layout = place::layout()?;
        let archive = image::archive()?;
        fs::create_dir_all(place::place()).map_err(told)?;
        let scratch = tempfile::tempdir_in(place::place()).map_err(told)?;
        let house = Self { runtime: Arc::new(contract::runtime(&layout)), layout, archive, scratch };
        fs::create_dir(house.project()).map_err(told)?;
        house.write_program().map_err(told)?;
        Ok(house)
    }

    fn project(&self) -> PathBuf {
        self.scratch.path().join("project")
    }

    fn program(&self) -> PathBuf {
        self.scratch.path().join("program")
    }

    /// The program whose background processes find the tests' own home.
    fn write_program(&self) -> std::io::Result<()> {
        let text = format!(
            "#!/bin/sh\nunset XDG_CONFIG_HOME XDG_STATE_HOME XDG_DATA_HOME XDG_CACHE_HOME\n\
             HOME='{}' AGENTS_SANDBOX_RUNTIME=qemu exec '{}' \"$@\"\n",
            place::place().join("home").display(),
            place::program().display()
        );
        fs::write(self.program(), text)?;
        fs::set_permissions(self.program(), fs::Permissions::from_mode(0o755))
    }

    fn context(&self) -> Context<'_> {
        Context {
            layout: self.layout.clone(),
            runtime: self.runtime.clone(),
            images: Arc::new(OneImage(self.archive.0.clone(), self.archive.1.clone())),
            program: self.program(),
            version: "test",
            identity: Identity {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
            reporter: &Silent,
        }
    }

    fn request(&self) -> UpRequest {
        let root = self.project();
        UpRequest {
            project: Project {
                repository: None,
                checkout: CheckoutSlug::new("homes", self.scratch.path()),
                repo: None,
                config_dir: root.join(".agents-sandbox"),
                subdir: PathBuf::new(),
                root,
            },
            agent: AgentName::literal("pi"),
            settings: SandboxSettings {
                resources: Resources { cpus: 1, memory: ByteSize::mib(512) },
                disk_size: Some(ByteSize::gib(1)),
                tmp_size: ByteSize::mib(64),
                workspace_quota: ByteSize::gib(1),
                network: NetworkPolicy::default(),
                mounts: Vec::new(),
                ports: Vec::new(),
                secrets: Vec::new(),
                ssh_agent: None,
                env: std::collections::BTreeMap::new(),
                sleep: false,
                auto_stop_timeout: Duration::from_mins(5),
                auto_stop_on_active_sessions: false,
                auto_stop_max_session_retries: 10,
            },
            secret_values: sandbox_model::SecretValues::new(),
            proxies: None,
            provision: ProvisionSettings::default(),
            image: ImageSettings::default(),
            rebuild: false,
            agent_version: None,
            keep: None,
            verb: "run",
        }
    }

    fn target(&self) -> Target {
        self.request().target()
    }

    fn up(&self) -> Result<Up, String> {
        up(&self.context(), &self.request()).map_err(told)
    }

    fn sh(&self, up: &Up, script: &str) -> Result<String, String> {
        self.sh_in(&up.name, script)
    }

    /// What a shell script prints inside, as the agent's user; it must succeed.
    fn sh_in(&self, sandbox: &SandboxName, script: &str) -> Result<String, String> {
        let words = ["sh", "-c", script].map(std::ffi::OsString::from);
        let command = exec_command("/home/dev", &words, false, None);
        let done = self.runtime.exec(sandbox, &command).map_err(told)?.collect().map_err(told)?;
        let code = done.status.shell_code();
        if code != 0 {
            return Err(format!("`{script}` ended with {code}: {}", String::from_utf8_lossy(&done.stderr)));
        }
        String::from_utf8(done.stdout).map(|text| text.trim().to_string()).map_err(told)
    }

    fn current(&self) -> Result<VolumeName, String> {
        let target = self.target();
        let files = self.layout.sandbox_state(&target.checkout, target.agent);
        let state = read_record::<ProjectState>(&files.state()).map_err(told)?.unwrap_or_default();
        state.home_volume.ok_or_else(|| "no home is recorded".into())
    }

    fn volumes(&self) -> Result<Vec<PathBuf>, String> {
        let name = self.target().name();
        let own = |path: &PathBuf| {
            path.file_name().is_some_and(|file| file.to_string_lossy().contains(name.as_str()))
        };
        let entries = fs::read_dir(self.layout.volumes()).map_err(told)?;
        Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(own).collect())
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let target = self.target();
        let _ = kill(&self.context(), &target, true);
        for volume in self.volumes().unwrap_or_default() {
            let _ = if volume.is_dir() { fs::remove_dir_all(volume) } else { fs::remove_file(volume) };
        }
        let _ = self.runtime.remove_image(&self.request().build_request().reference());
        let files = self.layout.sandbox_state(&target.checkout, target.agent);
        let locks = self.layout.boot_lock(&target.checkout, target.agent);
        for dir in [files.dir.parent(), locks.parent()].into_iter().flatten() {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

#[track_caller]
fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}")) }
}

/// Where the agents keep what a login inside the sandbox leaves.
fn logins() -> Vec<&'static str> {
    let files = profiles().iter().map(|agent| agent.own.credentials);
    let files: BTreeSet<&str> = files.flatten().copied().collect();
    files.into_iter().collect()
}

fn log_in(house: &House, up: &Up) -> Outcome {
    for file in logins() {
        house.sh(up, &format!("cd && umask 077 && mkdir -p $(dirname {file}) && echo token >{file}"))?;
    }
    Ok(())
}

fn logged_in(house: &House, up: &Up) -> Outcome {
    let files = logins();
    let found = house.sh(up, &format!("cd && cat {0} && stat -c '%a %U' {0}", files.join(" ")))?;
    let expected: Vec<&str> = files.iter().map(|_| "token").chain(files.iter().map(|_| "600 dev")).collect();
    same(&(found, files.len() >= 3), &(expected.join("\n"), true))
}

fn outlives() -> Outcome {
    let house = House::new()?;
    let (context, target) = (house.context(), house.target());
    let first = house.up()?;
    house.sh(&first, "echo one > ~/kept && echo gone > /var/tmp/beside")?;
    log_in(&house, &first)?;
    drop(first);
    stop(&context, &target, false).map_err(told)?;
    let home = house.current()?;

    let second = house.up()?;
    same(&house.sh(&second, "cat ~/kept; cat /var/tmp/beside")?.as_str(), &"one\ngone")?;
    house.sh(&second, "echo two >> ~/kept && sync")?;
    drop(second);
    kill(&context, &target, false).map_err(told)?;

    let third = house.up()?;
    same(&house.sh(&third, "cat ~/kept")?.as_str(), &"one\ntwo")?;
    drop(third);
    remove(&context, &target.name(), true).map_err(told)?;

    let fourth = house.up()?;
    same(&house.sh(&fourth, "cat ~/kept; test ! -e /var/tmp/beside")?.as_str(), &"one\ntwo")?;
    logged_in(&house, &fourth)?;
    same(&house.current()?, &home)?;
    same(&house.volumes()?.len(), &1)
}

const FILL: &str = "umask 022 && cd && mkdir -p 'a folder' .config && echo settings > .config/agent && \
    chmod 600 .config/agent && echo x > 'a folder/one' && ln 'a folder/one' two && ln -s .config/agent link && \
    touch -d '2001-02-03 04:05:06 UTC' two && truncate -s 1G sparse && echo end >> sparse && mkfifo pipe";
const LOOK: &str = "cd && stat -c '%n %a %u:%g %F %h' 'a folder' .config/agent two link pipe && readlink link && \
    cat .config/agent two && stat -c %Y two && stat -c %s sparse && tail -c 4 sparse && \
    test $(stat -c %i two) = $(stat -c %i 'a folder/one') && test $(stat -c %b sparse) -lt 100 && echo whole";

fn carries_over() -> Outcome {
    let house = House::new()?;
    let (context, target) = (house.context(), house.target());
    let before = house.up()?;
    house.sh(&before, FILL)?;
    log_in(&house, &before)?;
    let was = house.sh(&before, LOOK)?;
    if !was.ends_with("whole") {
        return Err(format!("the home is not filled: {was}"));
    }
    drop(before);
    stop(&context, &target, false).map_err(told)?;
    let old = house.current()?;
    let wish = Replacement {
        build: house.request().build_request(),
        volume: None,
        former: Vec::new(),
        remove_old: false,
    };
    let replaced = migrate(&context, &wish).map_err(told)?;
    same(&replaced.old, &old)?;
    same(&house.current()?, &replaced.new)?;
    same(&house.volumes()?.len(), &2)?;
    let after = house.up()?;
    same(&house.sh(&after, LOOK)?, &was)?;
    logged_in(&house, &after)?;
    let mounted = house.runtime.inspect(&after.name).map_err(told)?.map(|info| info.spec.home.path);
    same(&mounted.as_deref(), &Some::<&Path>(&house.layout.volume(&replaced.new)))?;
    // What is written now is in the new one alone.
    house.sh(&after, "echo later > ~/later")?;
    Ok(())
}

fn edited() -> Outcome {
    let house = House::new()?;
    let (context, target) = (house.context(), house.target());
    let before = house.up()?;
    house.sh(&before, "umask 022; echo mine > ~/kept; echo not > ~/left")?;
    drop(before);
    stop(&context, &target, false).map_err(told)?;
    let old = house.current()?;
    let wish = Replacement {
        build: house.request().build_request(),
        volume: None,
        former: Vec::new(),
        remove_old: false,
    };
    let edit = edit(&context, &wish).map_err(told)?;
    let script =
        format!("cp -a {GUEST_OLD_HOME}/kept ~/kept && ! touch {GUEST_OLD_HOME}/x 2>/dev/null && ls ~");
    same(&house.sh_in(edit.sandbox(), &script)?.as_str(), &"kept")?;
    let replaced = edit.commit().map_err(told)?;
    same(&(&replaced.old, &house.current()?), &(&old, &replaced.new))?;
    let after = house.up()?;
    same(&house.sh(&after, "cat ~/kept; ls ~; stat -c %U ~/kept")?.as_str(), &"mine\nkept\ndev")
}
