use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use sandbox_model::{Digest, labels};

use super::docker::Inspected;
use super::storage::{Storage, rootless_problem};
use super::{
    Archive, BuildRequest, Engine, EngineImage, EngineName, EngineSettings, capture, local_name, run,
};
use crate::{Events, ImageError, Result};

const LOOK: Duration = Duration::from_mins(1);
const REMOVE: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct Podman {
    program: PathBuf,
    storage: Storage,
}

impl Podman {
    pub(super) fn find(settings: &EngineSettings) -> Result<Result<Self, String>> {
        let Ok(program) = which::which("podman") else {
            return Ok(Err("not installed".into()));
        };
        if let Some(problem) = rootless_problem() {
            return Ok(Err(problem));
        }
        Ok(Storage::open(&program, "podman info", settings)?.map(|storage| Self { program, storage }))
    }

    fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        self.storage.apply(&mut command);
        // Neither a service manager nor a journal is needed to build.
        command.args(["--cgroup-manager", "cgroupfs", "--events-backend", "none"]);
        command.args(verb);
        command
    }

    /// Builds work in containers that podman itself does not know, hence external ones.
    fn sweep(&self) -> Result<()> {
        let listed = capture(self.command(&["ps", "--all", "--external", "--quiet"]), "podman ps", LOOK)?;
        let ids: Vec<&str> = listed.stdout.split_whitespace().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut command = self.command(&["rm", "--force", "--"]);
        command.args(ids);
        run(command, "podman rm", Some(REMOVE), &mut crate::Silent)
    }
}

impl Engine for Podman {
    fn name(&self) -> EngineName {
        EngineName::Podman
    }

    fn inspect(&self, reference: &str) -> Result<Option<EngineImage>> {
        let mut command = self.command(&["image", "inspect", "--"]);
        command.arg(local_name(reference));
        let answer = capture(command, "podman image inspect", LOOK)?;
        if !answer.success {
            let missing =
                ["image not known", "no such image"].iter().any(|text| answer.problem.contains(text));
            let error = ImageError::Answer { tool: "podman image inspect".into(), problem: answer.problem };
            return if missing { Ok(None) } else { Err(error) };
        }
        Ok(Inspected::parse(&answer.stdout, "podman image inspect")?.into_iter().next())
    }

    fn list_managed(&self) -> Result<Vec<EngineImage>> {
        let mut command = self.command(&["images", "--quiet", "--no-trunc", "--filter"]);
        command.arg(format!("label={}=true", labels::MANAGED));
        let answer = capture(command, "podman images", LOOK)?;
        if !answer.success {
            return Err(ImageError::Answer { tool: "podman images".into(), problem: answer.problem });
        }
        let mut ids: Vec<&str> = answer.stdout.split_whitespace().collect();
        ids.sort_unstable();
        ids.dedup();
        let bare = |id: &str| id.strip_prefix("sha256:").unwrap_or(id).to_string();
        ids.into_iter().filter_map(|id| self.inspect(&bare(id)).transpose()).collect()
    }

    fn pull(&self, reference: &str, deadline: Duration, events: &mut dyn Events) -> Result<()> {
        let mut command = self.command(&["pull", "--"]);
        command.arg(reference);
        run(command, "podman pull", Some(deadline), events)
    }

    fn build(&self, request: &BuildRequest<'_>, events: &mut dyn Events) -> Result<Digest> {
        let mut command = self.command(&["build", "--isolation", "chroot", "--format", "docker", "--layers"]);
        command.arg("--force-rm");
        if request.no_cache {
            command.arg("--no-cache");
        }
        for (name, value) in request.args {
            command.arg("--build-arg").arg(name).env(name, value);
        }
        command.arg("--file").arg(request.dockerfile).arg("--tag").arg(local_name(request.tag));
        command.arg("--").arg(request.context);
        self.storage.while_building(|| self.sweep(), || run(command, "podman build", None, events))?;
        self.inspect(request.tag)?
            .map(|image| image.id)
            .ok_or_else(|| ImageError::NoImage(request.tag.into()))
    }

    fn save(&self, reference: &str) -> Result<Archive> {
        let mut command = self.command(&["save", "--quiet", "--format", "docker-archive", "--"]);
        command.arg(local_name(reference));
        Archive::start(command, "podman save")
    }

    fn remove(&self, reference: &str) -> Result<()> {
        if self.inspect(reference)?.is_none() {
            return Ok(());
        }
        let mut command = self.command(&["rmi", "--"]);
        command.arg(local_name(reference));
        run(command, "podman rmi", Some(REMOVE), &mut crate::Silent)
    }
}
