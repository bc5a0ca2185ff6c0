//! The stand-in for opencode2, which has its own way of making worktrees.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_agents::{Server, health, profile};
use sandbox_model::AgentName;

use super::{PASSWORD, connect, run};

pub struct StandIn {
    pub project: PathBuf,
    dir: tempfile::TempDir,
    child: Child,
}

impl StandIn {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&project).unwrap();
        run(Command::new("git").args(["init", "--quiet"]).current_dir(&project));
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-agent/opencode2");
        let daemon = profile(AgentName::literal("opencode2")).unwrap().daemon.as_ref().unwrap();
        let child = Command::new(program)
            .args(daemon.args)
            .env(daemon.password_env, PASSWORD)
            .env("STAND_IN_PORTS", dir.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { project, dir, child };
        let begun = Instant::now();
        while !server.port_file().exists() || !health(&server.client()).unwrap().healthy {
            assert!(begun.elapsed() < Duration::from_mins(1), "the stand-in does not come");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    fn port_file(&self) -> PathBuf {
        self.dir.path().join("4096")
    }

    pub fn client(&self) -> Server<'static> {
        let port = fs::read_to_string(self.port_file()).unwrap().parse().unwrap();
        let daemon = profile(AgentName::literal("opencode2")).unwrap().daemon.as_ref().unwrap();
        Server::new(daemon, Box::new(move || connect(port)), PASSWORD, Duration::from_secs(20))
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
