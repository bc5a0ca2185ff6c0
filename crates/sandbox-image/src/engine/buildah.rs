use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use sandbox_model::{ByteSize, Digest, labels};
use serde::Deserialize;

use super::storage::{Storage, rootless_problem};
use super::{
    Archive, BuildRequest, Engine, EngineImage, EngineName, EngineSettings, capture, local_name, run,
    without_host,
};
use crate::{Events, ImageError, Result};

const LOOK: Duration = Duration::from_mins(1);
const REMOVE: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct Buildah {
    program: PathBuf,
    storage: Storage,
}

/// One row of `buildah images --json`.
#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    /// Rounded, for people: `128 MB`.
    #[serde(default)]
    size: String,
    #[serde(default)]
    created: i64,
}

/// The part of `buildah inspect --type image` with the labels.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    docker: InspectedDocker,
}

#[derive(Debug, Deserialize)]
struct InspectedDocker {
    config: Option<InspectedConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedConfig {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Buildah {
    pub(super) fn find(settings: &EngineSettings) -> Result<Result<Self, String>> {
        let Ok(program) = which::which("buildah") else {
            return Ok(Err("not installed".into()));
        };
        if let Some(problem) = rootless_problem() {
            return Ok(Err(problem));
        }
        Ok(Storage::open(&program, "buildah info", settings)?.map(|storage| Self { program, storage }))
    }

    fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        self.storage.apply(&mut command);
        command.args(verb);
        command
    }

    /// Removes every working container, also one that a build was ended in the middle of making, which
    /// `rm --all` does not see.
    fn sweep(&self) -> Result<()> {
        let listed = capture(self.command(&["containers", "--all", "--quiet"]), "buildah containers", LOOK)?;
        let ids: Vec<&str> = listed.stdout.split_whitespace().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut command = self.command(&["rm", "--"]);
        command.args(ids);
        run(command, "buildah rm", Some(REMOVE), &mut crate::Silent)
    }

    fn rows(command: Command) -> Result<Vec<Row>> {
        let tool = "buildah images";
        let answer = capture(command, tool, LOOK)?;
        if !answer.success {
            return if answer.problem.contains("image not known") {
                Ok(Vec::new())
            } else {
                Err(ImageError::Answer { tool: tool.into(), problem: answer.problem })
            };
        }
        let rows: Option<Vec<Row>> = serde_json::from_str(&answer.stdout)
            .map_err(|error| ImageError::Answer { tool: tool.into(), problem: error.to_string() })?;
        Ok(rows.unwrap_or_default())
    }

    /// `None` when the image was removed meanwhile.
    fn image(&self, row: Row) -> Result<Option<EngineImage>> {
        let tool = "buildah inspect";
        let wrong = |problem: String| ImageError::Answer { tool: tool.into(), problem };
        let id: Digest =
            row.id.parse().map_err(|error: sandbox_model::InvalidDigest| wrong(error.to_string()))?;
        let answer = capture(self.command(&["inspect", "--type", "image", "--", id.hex()]), tool, LOOK)?;
        if !answer.success {
            return if answer.problem.contains("image not known") {
                Ok(None)
            } else {
                Err(wrong(answer.problem))
            };
        }
        let inspected: Inspected =
            serde_json::from_str(&answer.stdout).map_err(|error| wrong(error.to_string()))?;
        Ok(Some(EngineImage {
            id,
            names: row.names.unwrap_or_default().iter().map(|name| without_host(name)).collect(),
            size: human_size(&row.size),
            created: row.created,
            labels: inspected.docker.config.and_then(|config| config.labels).unwrap_or_default(),
        }))
    }
}

/// `1.14 GB` in decimal units, as buildah writes sizes.
fn human_size(text: &str) -> ByteSize {
    let (number, unit) = text.split_once(' ').unwrap_or((text, "B"));
    let factor: f64 = match unit {
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => 1.0,
    };
    let bytes = number.parse::<f64>().unwrap_or(0.0) * factor;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates, and is rounded anyway"
    )]
    ByteSize::from_bytes(bytes as u64)
}

impl Engine for Buildah {
    fn name(&self) -> EngineName {
        EngineName::Buildah
    }

    fn inspect(&self, reference: &str) -> Result<Option<EngineImage>> {
        let mut command = self.command(&["images", "--json", "--no-trunc", "--"]);
        command.arg(local_name(reference));
        match Self::rows(command)?.into_iter().next() {
            Some(row) => self.image(row),
            None => Ok(None),
        }
    }

    fn list_managed(&self) -> Result<Vec<EngineImage>> {
        let mut command = self.command(&["images", "--json", "--no-trunc", "--filter"]);
        command.arg(format!("label={}=true", labels::MANAGED));
        Self::rows(command)?.into_iter().filter_map(|row| self.image(row).transpose()).collect()
    }

    fn pull(&self, reference: &str, deadline: Duration, events: &mut dyn Events) -> Result<()> {
        let mut command = self.command(&["pull", "--"]);
        command.arg(reference);
        run(command, "buildah pull", Some(deadline), events)
    }

    fn build(&self, request: &BuildRequest<'_>, events: &mut dyn Events) -> Result<Digest> {
        // The docker format keeps the image's id the same in the archive that `save` makes.
        let mut command = self.command(&["build", "--isolation", "chroot", "--format", "docker", "--layers"]);
        command.arg("--force-rm");
        if request.no_cache {
            command.arg("--no-cache");
        }
        command.arg("--pull=false");
        for (name, value) in request.args {
            command.arg("--build-arg").arg(name).env(name, value);
        }
        command.arg("--file").arg(request.dockerfile).arg("--tag").arg(local_name(request.tag));
        command.arg("--").arg(request.context);
        self.storage.while_building(|| self.sweep(), || run(command, "buildah build", None, events))?;
        self.inspect(request.tag)?
            .map(|image| image.id)
            .ok_or_else(|| ImageError::NoImage(request.tag.into()))
    }

    fn save(&self, reference: &str) -> Result<Archive> {
        let name = local_name(reference);
        let mut command = self.command(&["push", "--quiet", "--"]);
        command.arg(&name).arg(format!("docker-archive:/dev/stdout:{name}"));
        Archive::start(command, "buildah push")
    }

    fn remove(&self, reference: &str) -> Result<()> {
        if self.inspect(reference)?.is_none() {
            return Ok(());
        }
        let mut command = self.command(&["rmi", "--"]);
        command.arg(local_name(reference));
        run(command, "buildah rmi", Some(REMOVE), &mut crate::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people_become_bytes() {
        for (text, bytes) in [("128 MB", 128_000_000), ("1.14 GB", 1_140_000_000), ("0 B", 0), ("", 0)] {
            assert_eq!(human_size(text), ByteSize::from_bytes(bytes), "{text}");
        }
    }
}
