use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use sandbox_model::{ByteSize, Digest, labels};
use serde::Deserialize;

use super::{
    Archive, BuildRequest, Engine, EngineImage, EngineName, EngineSettings, capture, run, without_host,
};
use crate::{Events, ImageError, Result};

const PROBE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_mins(1);
/// The first client that leaves BuildKit to a plug-in.
const BUILDX_SINCE: u32 = 23;

#[derive(Debug)]
pub(super) struct Docker {
    program: PathBuf,
    buildkit: bool,
    network: Option<String>,
}

/// What `docker image inspect` and `podman image inspect` have in common.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Inspected {
    id: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    created: String,
    #[serde(default)]
    size: u64,
    config: Option<InspectedConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedConfig {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Inspected {
    pub(super) fn parse(text: &str, tool: &str) -> Result<Vec<EngineImage>> {
        let answer = |problem: String| ImageError::Answer { tool: tool.into(), problem };
        let images: Vec<Self> = serde_json::from_str(text).map_err(|error| answer(error.to_string()))?;
        let convert = |image: Self| {
            Ok(EngineImage {
                id: image
                    .id
                    .parse()
                    .map_err(|error: sandbox_model::InvalidDigest| answer(error.to_string()))?,
                names: image.repo_tags.unwrap_or_default().iter().map(|name| without_host(name)).collect(),
                size: ByteSize::from_bytes(image.size),
                created: image.created.parse::<Timestamp>().map_or(0, Timestamp::as_second),
                labels: image.config.and_then(|config| config.labels).unwrap_or_default(),
            })
        };
        images.into_iter().map(convert).collect()
    }
}

impl Docker {
    pub(super) fn find(settings: &EngineSettings) -> Result<Result<Self, String>> {
        let Ok(program) = which::which("docker") else {
            return Ok(Err("not installed".into()));
        };
        let mut command = Command::new(&program);
        command.args(["version", "--format", "{{.Client.Version}} {{.Server.Version}}"]);
        let answer = match capture(command, "docker version", PROBE) {
            Ok(answer) => answer,
            Err(ImageError::Deadline { .. }) => return Ok(Err("its daemon does not answer".into())),
            Err(error) => return Err(error),
        };
        if !answer.success {
            return Ok(Err(format!("its daemon does not answer: {}", answer.problem)));
        }
        let major: u32 =
            answer.stdout.split('.').next().and_then(|part| part.trim().parse().ok()).unwrap_or(BUILDX_SINCE);
        let mut command = Command::new(&program);
        command.args(["buildx", "version"]);
        let buildkit = major < BUILDX_SINCE || capture(command, "docker buildx", PROBE)?.success;
        Ok(Ok(Self { program, buildkit, network: settings.docker_network.clone() }))
    }

    fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(verb);
        command
    }
}

impl Engine for Docker {
    fn name(&self) -> EngineName {
        EngineName::Docker
    }

    fn inspect(&self, reference: &str) -> Result<Option<EngineImage>> {
        let mut command = self.command(&["image", "inspect", "--"]);
        command.arg(reference);
        let answer = capture(command, "docker image inspect", LOOK)?;
        if !answer.success {
            let missing = answer.problem.to_lowercase().contains("no such image");
            let error = ImageError::Answer { tool: "docker image inspect".into(), problem: answer.problem };
            return if missing { Ok(None) } else { Err(error) };
        }
        Ok(Inspected::parse(&answer.stdout, "docker image inspect")?.into_iter().next())
    }

    fn list_managed(&self) -> Result<Vec<EngineImage>> {
        let mut command = self.command(&["image", "ls", "--quiet", "--no-trunc", "--filter"]);
        command.arg(format!("label={}=true", labels::MANAGED));
        let answer = capture(command, "docker image ls", LOOK)?;
        if !answer.success {
            return Err(ImageError::Answer { tool: "docker image ls".into(), problem: answer.problem });
        }
        let mut ids: Vec<&str> = answer.stdout.split_whitespace().collect();
        ids.sort_unstable();
        ids.dedup();
        // One that is removed meanwhile is no longer there to be listed.
        ids.into_iter().filter_map(|id| self.inspect(id).transpose()).collect()
    }

    fn pull(&self, reference: &str, deadline: Duration, events: &mut dyn Events) -> Result<()> {
        let mut command = self.command(&["pull", "--"]);
        command.arg(reference);
        run(command, "docker pull", Some(deadline), events)
    }

    fn build(&self, request: &BuildRequest<'_>, events: &mut dyn Events) -> Result<Digest> {
        let mut command = self.command(&["build", "--force-rm"]);
        if self.buildkit {
            // `plain` logs whole lines; attestations would turn the result into an index.
            command.env("DOCKER_BUILDKIT", "1").env("BUILDKIT_PROGRESS", "plain");
            command.env("BUILDX_NO_DEFAULT_ATTESTATIONS", "1");
        } else {
            command.env("DOCKER_BUILDKIT", "0");
        }
        if request.no_cache {
            command.arg("--no-cache");
        }
        if let Some(network) = &self.network {
            command.arg(format!("--network={network}"));
        }
        for (name, value) in request.args {
            command.arg("--build-arg").arg(name).env(name, value);
        }
        command.arg("--file").arg(request.dockerfile).arg("--tag").arg(request.tag);
        command.arg("--").arg(request.context);
        run(command, "docker build", None, events)?;
        self.inspect(request.tag)?
            .map(|image| image.id)
            .ok_or_else(|| ImageError::NoImage(request.tag.into()))
    }

    fn save(&self, reference: &str) -> Result<Archive> {
        let mut command = self.command(&["save", "--"]);
        command.arg(reference);
        Archive::start(command, "docker save")
    }

    fn remove(&self, reference: &str) -> Result<()> {
        if self.inspect(reference)?.is_none() {
            return Ok(());
        }
        let mut command = self.command(&["image", "rm", "--"]);
        command.arg(reference);
        run(command, "docker image rm", Some(LOOK), &mut crate::Silent)
    }
}
