use std::fs;
use std::path::{Path, PathBuf};

use sandbox_config::{ConfigError, Flags, Inputs, Loaded, Origin, load};
use sandbox_model::RepoSlug;

/// A user's and a project's folder, removed at the end.
pub struct Lab {
    dir: tempfile::TempDir,
    pub inputs: Inputs,
}

impl Lab {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            config_dir: dir.path().join("user"),
            repo_slug: Some(RepoSlug::new("thing", b"git@host:thing.git")),
            project_dir: Some(dir.path().join("project/.agents-sandbox")),
            environment: vec![("HOME".into(), "/home/u".into())],
            flags: Flags::default(),
        };
        Self { dir, inputs }
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn user(&self, name: &str, text: &str) -> PathBuf {
        write(&self.inputs.config_dir.join(name), text)
    }

    pub fn repo(&self, name: &str, text: &str) -> PathBuf {
        let slug = self.inputs.repo_slug.clone().unwrap();
        write(&self.inputs.config_dir.join(slug.as_str()).join(name), text)
    }

    pub fn project(&self, name: &str, text: &str) -> PathBuf {
        write(&self.inputs.project_dir.clone().unwrap().join(name), text)
    }

    pub fn variable(&mut self, name: &str, value: &str) {
        self.inputs.environment.push((name.into(), value.into()));
    }

    pub fn load(&self) -> Loaded {
        load(&self.inputs).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn error(&self) -> ConfigError {
        load(&self.inputs).unwrap_err()
    }

    /// The excerpt of the error, with this folder's own path taken out.
    pub fn excerpt(&self) -> String {
        let text = match self.error() {
            ConfigError::File(error) => error.excerpt(),
            other => other.to_string(),
        };
        text.replace(self.root().to_str().unwrap(), "")
            .lines()
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }
}

/// Only the user's file, in YAML.
pub fn yaml(text: &str) -> Lab {
    let lab = Lab::new();
    lab.user("config.yaml", text);
    lab
}

pub fn in_file(path: &Path, line: usize) -> Origin {
    Origin::File { path: path.into(), line }
}

pub fn env(variable: &str) -> Origin {
    Origin::Env { variable: variable.into() }
}

fn write(path: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    path.into()
}
