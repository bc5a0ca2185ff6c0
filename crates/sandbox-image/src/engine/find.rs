use std::fmt;

use super::buildah::Buildah;
use super::docker::Docker;
use super::podman::Podman;
use super::{Engine, EngineName, EngineSetting, EngineSettings};
use crate::Result;

/// Why one engine cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The one that was tried.
    pub engine: EngineName,
    /// What it lacks, for people.
    pub problem: String,
}

/// No engine can be used: what each lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NoEngine {
    /// One for each that was tried, in that order.
    pub attempts: Vec<Attempt>,
}

impl fmt::Display for NoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no image engine can be used")?;
        let mut lead = ": ";
        for Attempt { engine, problem } in &self.attempts {
            write!(f, "{lead}{engine}: {problem}")?;
            lead = "; ";
        }
        Ok(())
    }
}

/// Finds an engine that works: the one that is set, or the first of docker (its daemon must answer), podman
/// and buildah. The error of the inner kind [`crate::ImageError::NoEngine`] lists what each lacks.
pub fn find(setting: EngineSetting, settings: &EngineSettings) -> Result<Box<dyn Engine>> {
    let names = match setting {
        EngineSetting::Auto => EngineName::ALL.to_vec(),
        EngineSetting::Only(name) => vec![name],
    };
    let mut attempts = Vec::new();
    for name in names {
        let found = match name {
            EngineName::Docker => Docker::find(settings)?.map(|engine| Box::new(engine) as Box<dyn Engine>),
            EngineName::Podman => Podman::find(settings)?.map(|engine| Box::new(engine) as Box<dyn Engine>),
            EngineName::Buildah => Buildah::find(settings)?.map(|engine| Box::new(engine) as Box<dyn Engine>),
        };
        match found {
            Ok(engine) => return Ok(engine),
            Err(problem) => attempts.push(Attempt { engine: name, problem }),
        }
    }
    Err(NoEngine { attempts }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_lists_what_each_engine_lacks() {
        let attempt = |engine, problem: &str| Attempt { engine, problem: problem.into() };
        let error = NoEngine {
            attempts: vec![
                attempt(EngineName::Docker, "its daemon does not answer"),
                attempt(EngineName::Podman, "not installed"),
            ],
        };
        assert_eq!(
            error.to_string(),
            "no image engine can be used: docker: its daemon does not answer; podman: not installed"
        );
    }
}
