//! A running `opencode serve` and its provider. Both end with the value.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_agents::{Server, health, profile};
use sandbox_model::AgentName;
use sandbox_runtime::{Connection, Result};

mod package;
mod stand_in;

use package::{opencode, run};
pub use stand_in::StandIn;

const PASSWORD: &str = "test-password";

pub struct OpencodeServer {
    pub project: PathBuf,
    root: tempfile::TempDir,
    port: u16,
    children: Vec<Child>,
}

impl OpencodeServer {
    pub fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().canonicalize().unwrap().join("project");
        let home = root.path().join("home");
        fs::create_dir_all(home.join(".config/opencode")).unwrap();
        fs::create_dir_all(&project).unwrap();
        // It unpacks libraries there when it starts, and removes none of them.
        let tmp = root.path().join("tmp");
        fs::create_dir(&tmp).unwrap();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-provider");
        let provider_port = free_port();
        let config = fs::read_to_string(repository.join("opencode.json")).unwrap();
        let config = config.replace("18101", &provider_port.to_string());
        fs::write(home.join(".config/opencode/opencode.json"), config).unwrap();
        fs::write(project.join("opencode.json"), r#"{"permission":{"bash":"ask"}}"#).unwrap();
        run(Command::new("git").args(["init", "--quiet"]).current_dir(&project));

        let mut provider = Command::new("python3");
        provider.arg(repository.join("fake_provider.py")).arg(provider_port.to_string());
        let agent = profile(AgentName::OPENCODE).unwrap();
        let port = free_port();
        let daemon = agent.daemon.as_ref().unwrap();
        let argv = daemon.argv(opencode().to_str().unwrap());
        let mut serve = Command::new(&argv[0]);
        // Everything as in a sandbox but the port, which others on this machine may want.
        serve.args(
            argv[1..].iter().map(|word| if word == "4096" { port.to_string().into() } else { word.clone() }),
        );
        serve
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &home)
            .env("TMPDIR", &tmp);
        serve.envs(agent.image_env.iter().copied()).envs(agent.offline_env.iter().copied());
        serve.env(daemon.password_env, PASSWORD).current_dir(&project);

        let mut server = Self { project, port, children: Vec::new(), root };
        for mut command in [provider, serve] {
            let log = File::options().create(true).append(true).open(server.root.path().join("log")).unwrap();
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
            server.children.push(command.spawn().unwrap());
        }
        server.wait_until_healthy();
        server
    }

    fn wait_until_healthy(&self) {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            match health(&self.client(Duration::from_secs(1))) {
                Ok(health) if health.healthy => return,
                other => assert!(Instant::now() < deadline, "{other:?}\n{}", self.log()),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub fn client(&self, timeout: Duration) -> Server<'static> {
        self.client_with(PASSWORD, timeout)
    }

    pub fn client_with(&self, password: &str, timeout: Duration) -> Server<'static> {
        let daemon = profile(AgentName::OPENCODE).unwrap().daemon.as_ref().unwrap();
        let port = self.port;
        Server::new(daemon, Box::new(move || connect(port)), password, timeout)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.root.path().join("log")).unwrap_or_default()
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.root.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Starts a session with one message; its id.
    pub fn prompt(&self, directory: &Path, text: &str) -> String {
        let session = self.post(directory, "/session", r#"{"title":"test"}"#);
        let session: serde_json::Value = serde_json::from_str(&session).unwrap();
        let id = session["id"].as_str().unwrap().to_string();
        self.prompt_again(directory, &id, text);
        id
    }

    pub fn prompt_again(&self, directory: &Path, session: &str, text: &str) {
        let message = serde_json::json!({ "parts": [{ "type": "text", "text": text }] });
        self.post(directory, &format!("/session/{session}/prompt_async"), &message.to_string());
    }

    pub fn abort(&self, directory: &Path, session: &str) {
        self.post(directory, &format!("/session/{session}/abort"), "");
    }

    pub fn answer_question(&self, directory: &Path, session: &str, answer: &str) {
        let question = self.newest(directory, "/question", session);
        self.post(directory, &format!("{question}/reply"), &format!(r#"{{"answers":[["{answer}"]]}}"#));
    }

    pub fn reject_question(&self, directory: &Path, session: &str) {
        let question = self.newest(directory, "/question", session);
        self.post(directory, &format!("{question}/reject"), "");
    }

    pub fn refuse_permission(&self, directory: &Path, session: &str) {
        let permission = self.newest(directory, "/permission", session);
        self.post(directory, &format!("{permission}/reply"), r#"{"reply":"reject"}"#);
    }

    /// The path of what a session asks. Those of interrupted turns stay open.
    fn newest(&self, directory: &Path, path: &str, session: &str) -> String {
        let open: Vec<serde_json::Value> =
            serde_json::from_str(&self.request("GET", directory, path, "")).unwrap();
        let of_session = open.iter().filter(|request| request["sessionID"] == session);
        let ids = of_session.map(|request| request["id"].as_str().unwrap());
        format!("{path}/{}", ids.max().unwrap())
    }

    fn post(&self, directory: &Path, path: &str, body: &str) -> String {
        self.request("POST", directory, path, body)
    }

    /// Another client than the one under test.
    fn request(&self, method: &str, directory: &Path, path: &str, body: &str) -> String {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail-with-body", "--max-time", "60", "--noproxy", "*"])
            .args(["--user", &format!("opencode:{PASSWORD}"), "--request", method])
            .args(["--header", "content-type: application/json", "--data", body])
            .args([
                "--header",
                &format!("x-opencode-directory: {}", directory.display()).replace("else ", "else%20"),
            ])
            .arg(format!("http://127.0.0.1:{}{path}", self.port))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{method} {path}: {text} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }
}

impl Drop for OpencodeServer {
    fn drop(&mut self) {
        for child in &mut self.children {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn connect(port: u16) -> Result<Box<dyn Connection>> {
    Ok(Box::new(Tcp(TcpStream::connect(("127.0.0.1", port))?)))
}

/// A loopback stream in the place of one to a guest.
struct Tcp(TcpStream);

impl Read for Tcp {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Tcp {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Connection for Tcp {
    fn try_clone(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Self(self.0.try_clone()?)))
    }

    fn shutdown_write(&mut self) -> Result<()> {
        Ok(self.0.shutdown(Shutdown::Write)?)
    }

    fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.0.set_read_timeout(timeout)?;
        Ok(self.0.set_write_timeout(timeout)?)
    }
}
