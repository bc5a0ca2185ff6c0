use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A home, a project and a runtime of their own; nothing of the machine's reaches the program.
pub struct TestEnvironment {
    root: TempDir,
}

impl TestEnvironment {
    pub fn new() -> Self {
        let environment = Self { root: tempfile::tempdir().unwrap() };
        for dir in ["home", "project", "bin"] {
            std::fs::create_dir(environment.path(dir)).unwrap();
        }
        environment
    }

    pub fn path(&self, name: &str) -> PathBuf {
        // Resolved, as the program shows it.
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// Writes a file below the environment's root, with the folders it needs.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The program in the project's folder, with nothing on its stdin.
    pub fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agents-sandbox"));
        command.args(words).current_dir(self.project()).stdin(Stdio::null());
        self.seal(&mut command);
        command
    }

    /// Only what every environment has, and where everything of ours is.
    pub fn seal(&self, command: &mut Command) {
        let home = self.path("home");
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TZ", "UTC").env("LANG", "C.UTF-8").env("SHELL", "/bin/sh");
        command.env("HOME", &home);
        command.env("XDG_CONFIG_HOME", home.join("config"));
        command.env("XDG_STATE_HOME", home.join("state"));
        command.env("XDG_DATA_HOME", home.join("data"));
        command.env("XDG_CACHE_HOME", home.join("cache"));
        command.env("AGENTS_SANDBOX_FAKE_RUNTIME", self.path("runtime"));
    }

    pub fn run(&self, words: &[impl AsRef<OsStr>]) -> Ran {
        self.finish(&mut self.command(words))
    }

    pub fn finish(&self, command: &mut Command) -> Ran {
        let output = command.output().unwrap();
        let root = self.path("");
        let readable = |bytes: &[u8]| readable(bytes, &root);
        Ran {
            code: output.status.code(),
            stdout: readable(&output.stdout),
            stderr: readable(&output.stderr),
            raw_stdout: output.stdout,
        }
    }
}

impl Drop for TestEnvironment {
    /// No process outlives its test, however that ends.
    fn drop(&mut self) {
        let Ok(listed) = self.command(&["list", "--names"]).output() else { return };
        for name in String::from_utf8_lossy(&listed.stdout).lines() {
            let _ = self.command(&["sandbox", "remove", "--force", name]).output();
        }
    }
}

fn readable(bytes: &[u8], root: &Path) -> String {
    String::from_utf8_lossy(bytes).replace(&*root.to_string_lossy(), "$ROOT/")
}

/// How a run ended and what it printed, with the environment's own folder as `$ROOT`.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub raw_stdout: Vec<u8>,
}

impl Ran {
    /// The output of a run that must have succeeded.
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self}");
        self.stdout
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stdout, self.stderr)?;
        match self.code {
            Some(0) => Ok(()),
            Some(code) => write!(f, "[exit {code}]"),
            None => write!(f, "[killed by a signal]"),
        }
    }
}
