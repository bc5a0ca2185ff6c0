use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agents-sandbox");

/// A project of one test, and a home that the tests share for its image layers.
pub struct World {
    pub home: PathBuf,
    /// Variables of every program that is called.
    pub environment: Vec<(&'static str, PathBuf)>,
    project: PathBuf,
    _scratch: tempfile::TempDir,
}

impl World {
    pub fn new(name: &str) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e");
        let home = place.join("home");
        fs::create_dir_all(&home).unwrap();
        let scratch = tempfile::tempdir_in(&place).unwrap();
        let project = scratch.path().join(format!("{name}-project"));
        fs::create_dir(&project).unwrap();
        let world = Self { home, environment: Vec::new(), project, _scratch: scratch };
        let status =
            Command::new("git").args(["init", "--quiet"]).current_dir(&world.project).status().unwrap();
        assert!(status.success());
        world.write(".agents-sandbox/config.yaml", "memory: 2G\n");
        world
    }

    /// Opens the provider's port to the sandbox, and nothing else.
    pub fn open_port(&self, port: u16) {
        let config = format!("memory: 2G\nnetwork:\n  provider: []\n  egress-allow: [\"host:{port}\"]\n");
        self.write(".agents-sandbox/config.yaml", &config);
    }

    /// More of the project's settings.
    pub fn add_settings(&self, text: &str) {
        let settings = self.read(".agents-sandbox/config.yaml");
        self.write(".agents-sandbox/config.yaml", &(settings + text));
    }

    /// Opens the provider's port to the sandbox, and tells opencode about it.
    pub fn use_provider(&self, port: u16) {
        self.open_port(port);
        self.configure_opencode(&format!("http://host.agents-sandbox.internal:{port}"), "dummy");
    }

    /// Makes the fake provider opencode's only one.
    pub fn configure_opencode(&self, url: &str, key: &str) {
        let opencode = serde_json::json!({
            "autoupdate": false,
            "share": "disabled",
            "enabled_providers": ["fake"],
            "model": "fake/fake-1",
            "small_model": "fake/fake-1",
            "provider": { "fake": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Fake",
                "options": { "baseURL": format!("{url}/v1"), "apiKey": key },
                "models": { "fake-1": {
                    "name": "Fake 1", "tool_call": true, "limit": { "context": 100_000, "output": 4096 },
                } },
            } },
        });
        self.write(".agents-sandbox/opencode/opencode-test.json", &opencode.to_string());
    }

    /// A folder beside the project's, whose name begins like it; it need not be there.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.project.with_file_name(format!("{}-{name}", self.own()))
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project.join(path)).unwrap()
    }

    pub fn has(&self, path: &str) -> bool {
        self.project.join(path).exists()
    }

    /// The log of the keeper of opencode's sandbox.
    pub fn keeper_log(&self) -> String {
        let known = self.succeeds(&["sandbox", "inspect"], Duration::from_mins(1));
        let known: Value = serde_json::from_str(&known).unwrap();
        fs::read_to_string(known["logs"]["keeper"].as_str().unwrap()).unwrap()
    }

    /// git in the project's folder, or in one below it.
    pub fn git(&self, folder: &str, words: &[&str]) -> String {
        let mut command = self.command("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"]).arg(self.project.join(folder));
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    pub fn owner(&self, path: &str) -> (u32, u32) {
        let metadata = fs::metadata(self.project.join(path)).unwrap();
        (metadata.uid(), metadata.gid())
    }

    /// Our program, or another in the project's folder, with nothing of the person's own settings.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.project).env("HOME", &self.home).env("TERM", "xterm-256color");
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(name);
        }
        // Whichever engines this machine has: the one that needs neither a daemon nor root.
        command.env("AGENTS_SANDBOX_IMAGE_ENGINE", "buildah");
        // What npm says today must not stop a test with a question.
        command.env("AGENTS_SANDBOX_UPGRADE_AGENTS", "off");
        // The project's own settings open the fake provider's port, and the test says yes to that.
        command.env("AGENTS_SANDBOX_YES", "true");
        command.envs(self.environment.iter().cloned());
        command
    }

    pub fn program() -> &'static str {
        PROGRAM
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(PROGRAM);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs our program to its end, which must be a good one; its standard output.
    pub fn succeeds(&self, arguments: &[&str], patience: Duration) -> String {
        let begin = Instant::now();
        let output = self.spawn(arguments).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        assert!(begin.elapsed() < patience, "{arguments:?} took {:?}: {said}", begin.elapsed());
        String::from_utf8(output.stdout).unwrap()
    }

    /// This project's sandbox, as `list --format json` shows it.
    pub fn sandbox(&self) -> Value {
        let output = self.spawn(&["list", "--format", "json"]).wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let list: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let own = self.own();
        let mut mine = list
            .into_iter()
            .filter(|sandbox| sandbox["name"].as_str().is_some_and(|name| name.starts_with(own.as_str())));
        let sandbox = mine.next().unwrap_or_default();
        assert!(mine.next().is_none(), "two sandboxes of one project");
        sandbox
    }

    /// How the names of this project's sandboxes and volumes begin.
    fn own(&self) -> String {
        self.project.file_name().unwrap().to_string_lossy().into_owned()
    }

    pub fn wait_for(&self, what: &str, patience: Duration, reached: impl Fn(&Value) -> bool) {
        let begin = Instant::now();
        loop {
            let sandbox = self.sandbox();
            if reached(&sandbox) {
                return;
            }
            assert!(begin.elapsed() < patience, "waited in vain for {what}: {sandbox}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = self.spawn(&["logs"]).wait_with_output();
            eprintln!("{:?}", output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()));
        }
        let own = self.own();
        let listed = self.spawn(&["list", "--names"]).wait_with_output();
        let names = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        for name in names.unwrap_or_default().lines().filter(|name| name.starts_with(own.as_str())) {
            let _ = self.spawn(&["sandbox", "remove", "--force", name]).wait();
        }
        for entry in fs::read_dir(self.home.join(".local/share/agents-sandbox/volumes"))
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.file_name().to_string_lossy().starts_with(own.as_str()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
