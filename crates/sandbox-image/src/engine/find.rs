use std::fmt;

use super::buildah::Buildah;
use super::docker::Docker;
use super::podman::Podman;
use super::{Engine, EngineName, EngineSetting, EngineSettings};
use crate::{Result, files};

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
    let mut attempts = Vec::new();
    for name in names(setting) {
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

/// [`find`] for whoever only looks at what an engine has, or removes of it. It makes nothing: `None` where that could
/// only be in a storage of ours, and there is none.
pub fn find_with_images(
    setting: EngineSetting,
    settings: &EngineSettings,
) -> Result<Option<Box<dyn Engine>>> {
    if files::storage(&settings.dir).exists() {
        return find(setting, settings).map(Some);
    }
    let mut attempts = Vec::new();
    for name in names(setting) {
        let problem = match name {
            EngineName::Docker => match Docker::find(settings)? {
                Ok(engine) => return Ok(Some(Box::new(engine))),
                Err(problem) => problem,
            },
            EngineName::Podman | EngineName::Buildah => {
                if which::which(name.as_str()).is_ok() {
                    return Ok(None);
                }
                "not installed".into()
            }
        };
        attempts.push(Attempt { engine: name, problem });
    }
    Err(NoEngine { attempts }.into())
}

fn names(setting: EngineSetting) -> Vec<EngineName> {
    match setting {
        EngineSetting::Auto => EngineName::ALL.to_vec(),
        EngineSetting::Only(name) => vec![name],
    }
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
