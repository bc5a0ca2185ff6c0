use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
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
        for dir in ["home", "project", "bin", "run", "tmp"] {
            std::fs::create_dir(environment.path(dir)).unwrap();
        }
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(environment.path("run"), private).unwrap();
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
        // What engines and programs that are ended leave behind goes with the environment.
        command.env("XDG_RUNTIME_DIR", self.path("run")).env("TMPDIR", self.path("tmp"));
        command.env("AGENTS_SANDBOX_FAKE_RUNTIME", self.path("runtime"));
    }

    /// The project's sandbox, which must be the only one.
    pub fn sandbox(&self) -> String {
        let names = self.run(&["list", "--names"]).success();
        assert_eq!(names.lines().count(), 1, "{names}");
        names.trim().into()
    }

    /// A sandbox at rest that was last used so many days ago; its name.
    pub fn rested(&self, days: i64) -> String {
        self.run(&["exec", "true"]).success();
        self.run(&["stop", "--cold"]).success();
        let name = self.sandbox();
        self.age(&name, days);
        name
    }

    /// As if the sandbox had not been used for so many days.
    pub fn age(&self, name: &str, days: i64) {
        let path = self.path("runtime/sandboxes").join(name).join("record.json");
        let mut record: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        record["updated"] = (record["updated"].as_i64().unwrap() - days * 86_400).into();
        std::fs::write(path, record.to_string()).unwrap();
    }

    /// File names of the home volumes.
    pub fn volumes(&self) -> Vec<String> {
        let dir = self.path("home/data/agents-sandbox/volumes");
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The answer of a command that prints JSON.
    #[track_caller]
    pub fn json(&self, words: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.run(words).success()).unwrap()
    }

    pub fn run(&self, words: &[impl AsRef<OsStr>]) -> Ran {
        self.finish(&mut self.command(words))
    }

    /// [`Self::run`] of what waits for nobody: after 20 s it is ended, with the code 124.
    pub fn run_at_once(&self, words: &[&str]) -> Ran {
        let mut command = Command::new("timeout");
        command.arg("20").arg(env!("CARGO_BIN_EXE_agents-sandbox")).args(words);
        command.current_dir(self.project()).stdin(Stdio::null());
        self.seal(&mut command);
        self.finish(&mut command)
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

/// The hash of the environment's own folder says nothing in a snapshot, nor does the time of a test.
pub fn without_hash(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let words = line.split_whitespace().map(|word| match word.find("project-") {
            Some(at) if word.len() >= at + 22 => {
                let rest = without_stamp(&word[at + 22..]);
                format!("{}project-HASH{rest}", &word[..at])
            }
            _ => word.into(),
        });
        lines.push(words.collect::<Vec<String>>().join(" "));
    }
    lines.join("\n")
}

/// `-20261129T165754` becomes `-TIME`.
fn without_stamp(text: &str) -> String {
    let stamp = |at: usize| {
        let part = text.get(at..at + 16)?;
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        (part.starts_with('-') && part.as_bytes()[9] == b'T' && digits == 14).then_some(at)
    };
    match (0..text.len()).find_map(stamp) {
        Some(at) => format!("{}-TIME{}", &text[..at], &text[at + 16..]),
        None => text.into(),
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
