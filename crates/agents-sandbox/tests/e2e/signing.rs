//! The user's ssh-agent in a sandbox, and commits signed with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::world::World;
use crate::{FIRST_PATIENCE, PATIENCE};

const SOCKET: &str = "/run/agents-sandbox/ssh-agent.sock";
const COMMIT: &str = "git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m";

/// A real agent of a user, with one key; killed when dropped.
struct Agent {
    process: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(dir: &Path, name: &str) -> Self {
        let socket = dir.join(name);
        let mut command = Command::new("ssh-agent");
        let process = command.args(["-D", "-a"]).arg(&socket).stdout(Stdio::null()).spawn().unwrap();
        let agent = Self { process, socket };
        let begin = Instant::now();
        while !agent.socket.exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "ssh-agent makes no socket");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(agent.add(&[dir.join("key").to_str().unwrap()]).0);
        agent
    }

    fn add(&self, words: &[&str]) -> (bool, String) {
        let output = Command::new("ssh-add").args(words).env("SSH_AUTH_SOCK", &self.socket).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The user's git signs everything with the key, whose private half stays in the agent.
fn prepare(dir: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "me@host", "-f"])
        .arg(dir.join("key"))
        .status()
        .unwrap();
    assert!(made.success());
    let public = fs::read_to_string(dir.join("key.pub")).unwrap();
    fs::write(dir.join("allowed"), format!("a@b {public}")).unwrap();
    let config = format!(
        "[gpg]\nformat = ssh\n[gpg \"ssh\"]\nallowedSignersFile = {0}/allowed\n\
         [user]\nsigningkey = {0}/key.pub\n[commit]\ngpgsign = true\n",
        dir.display()
    );
    fs::write(dir.join("gitconfig"), config).unwrap();
}

#[test]
fn a_sandbox_signs_with_the_users_agent_and_cannot_change_it() {
    let world = World::new("signing");
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    prepare(dir);
    let agent = Agent::start(dir, "first.sock");
    let told = |socket: &Path, arguments: &[&str], patience: Duration| {
        let begin = Instant::now();
        let mut command = world.command(World::program());
        command.args(arguments).stdin(Stdio::null());
        command.env("GIT_CONFIG_GLOBAL", dir.join("gitconfig")).env("SSH_AUTH_SOCK", socket);
        let output = command.output().unwrap();
        assert!(begin.elapsed() < patience, "{arguments:?} took {:?}", begin.elapsed());
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let inside =
        |socket: &Path, script: &str| told(socket, &["exec", "--", "sh", "-c", script], FIRST_PATIENCE);
    let verified = || {
        let mut command = world.command("git");
        command.args(["verify-commit", "HEAD"]).env("GIT_CONFIG_GLOBAL", dir.join("gitconfig"));
        let output = command.output().unwrap();
        output.status.success()
            && String::from_utf8_lossy(&output.stderr).contains("Good \"git\" signature for a@b")
    };

    // Not asked for: no agent, and no signature.
    let script =
        format!("echo \"[$SSH_AUTH_SOCK]\"; ls {SOCKET} && echo there; {COMMIT} signed -S || echo unsigned");
    let (_, said) = inside(&agent.socket, &script);
    assert!(said.starts_with("[]") && !said.contains("there\n") && said.contains("unsigned"), "{said}");

    let stopped = || {
        let (done, said) = told(&agent.socket, &["stop", "--cold"], PATIENCE);
        assert!(done, "{said}");
    };
    // Nobody is asked here, and what would sleep keeps its settings.
    stopped();
    world.add_settings("ssh:\n  agent: true\ngit:\n  signing: true\n");
    let (done, said) = inside(&agent.socket, &format!("ssh-add -l && {COMMIT} signed"));
    assert!(done && said.contains("me@host"), "{said}");
    assert!(verified());

    let before = agent.add(&["-l"]).1;
    let script = "ssh-keygen -q -t ed25519 -N '' -f /tmp/own && ! ssh-add /tmp/own && ! ssh-add -D && ! ssh-add -x </dev/null";
    let (done, said) = inside(&agent.socket, script);
    assert!(done, "{said}");
    assert_eq!(agent.add(&["-l"]).1, before, "the host's agent is as it was");

    // A login of another day has another agent.
    let (done, said) = told(&agent.socket, &["stop"], PATIENCE);
    assert!(done, "{said}");
    drop(agent);
    let agent = Agent::start(dir, "second.sock");
    let (done, said) = inside(&agent.socket, &format!("{COMMIT} again"));
    assert!(done, "{said}");
    assert!(verified());
    assert_eq!(world.git(".", &["log", "-1", "--format=%s"]), "again");

    let socket = agent.socket.clone();
    drop(agent);
    let (_, said) = inside(&socket, "timeout 20 ssh-add -l; echo $?");
    assert!(said.contains("communication with agent failed") && said.contains("1\n"), "{said}");
    let (_, log) = told(&socket, &["logs", "ssh-agent"], PATIENCE);
    for line in ["a signature for git", "refused: add a key", "refused: remove keys", "does not answer"] {
        assert!(log.contains(line), "{line}: {log}");
    }
}
