//! The program `ssh-agent` itself behind the rules, and `ssh-add` and `ssh-keygen` before them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sandbox_model::AgentRules;

struct World {
    dir: tempfile::TempDir,
    agent: Child,
    rules: Arc<Mutex<AgentRules>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl World {
    /// An agent with two keys, and a guest's socket that leads to it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(dir.path().join("host.sock"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let world = Self { dir, agent, rules: Arc::default(), log: Arc::default() };
        let begin = Instant::now();
        while !world.path("host.sock").exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "ssh-agent makes no socket");
            std::thread::sleep(Duration::from_millis(10));
        }
        for name in ["one", "two"] {
            world.key(name);
            assert!(world.at("host.sock", "ssh-add", &["-q", name]).status.success());
        }
        world.serve();
        world
    }

    fn key(&self, name: &str) {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(self.path(name));
        assert!(command.status().unwrap().success());
    }

    fn serve(&self) {
        let listener = UnixListener::bind(self.path("guest.sock")).unwrap();
        let (host, rules, log) = (self.path("host.sock"), Arc::clone(&self.rules), Arc::clone(&self.log));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (mut client, host, rules, log) =
                    (client.unwrap(), host.clone(), rules.clone(), log.clone());
                std::thread::spawn(move || {
                    let now =
                        || (vec![PathBuf::from("/nowhere"), host.clone()], rules.lock().unwrap().clone());
                    let tell =
                        |event: &sandbox_ssh_agent::Event<'_>| log.lock().unwrap().push(event.to_string());
                    let _ = sandbox_ssh_agent::forward(&mut client, now, tell);
                });
            }
        });
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn at(&self, socket: &str, program: &str, words: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.dir.path()).env("SSH_AUTH_SOCK", self.path(socket));
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn guest(&self, program: &str, words: &[&str]) -> Output {
        self.at("guest.sock", program, words)
    }

    /// Signs a file as `namespace` with a key that the guest has only the public half of.
    fn signs(&self, key: &str, namespace: &str) -> bool {
        let public = self.path("public");
        let _ = fs::remove_dir_all(&public);
        fs::create_dir(&public).unwrap();
        fs::copy(self.path(&format!("{key}.pub")), public.join("key.pub")).unwrap();
        fs::write(public.join("text"), "text").unwrap();
        let words = ["-Y", "sign", "-q", "-n", namespace, "-f", "public/key.pub", "public/text"];
        self.guest("ssh-keygen", &words).status.success() && self.verifies(key, namespace, &public)
    }

    fn verifies(&self, key: &str, namespace: &str, public: &Path) -> bool {
        let line = fs::read_to_string(self.path(&format!("{key}.pub"))).unwrap();
        fs::write(public.join("allowed"), format!("me {line}")).unwrap();
        let mut command = Command::new("ssh-keygen");
        command.args(["-Y", "verify", "-q", "-I", "me", "-n", namespace, "-f"]).arg(public.join("allowed"));
        command.arg("-s").arg(public.join("text.sig"));
        command.stdin(fs::File::open(public.join("text")).unwrap()).status().unwrap().success()
    }

    /// Asks for a signature without a look at the list; the kind of the answer.
    fn asks(&self, key: &str) -> u8 {
        let line = fs::read_to_string(self.path(&format!("{key}.pub"))).unwrap();
        let key = STANDARD.decode(line.split_whitespace().nth(1).unwrap()).unwrap();
        let mut body = vec![13];
        for field in [key.as_slice(), b"data"] {
            body.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
            body.extend(field);
        }
        body.extend([0; 4]);
        let mut guest = UnixStream::connect(self.path("guest.sock")).unwrap();
        guest.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
        guest.write_all(&body).unwrap();
        let mut answer = [0; 5];
        guest.read_exact(&mut answer).unwrap();
        answer[4]
    }

    fn list(&self, socket: &str) -> String {
        let output = self.at(socket, "ssh-add", &["-l"]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

fn fingerprint(world: &World, key: &str) -> String {
    let said = world.at("host.sock", "ssh-keygen", &["-l", "-f", key]);
    String::from_utf8_lossy(&said.stdout).split_whitespace().nth(1).unwrap().to_string()
}

#[test]
fn keys_are_listed_and_sign_and_the_agent_stays_as_it_is() {
    let world = World::new();
    let before = world.list("host.sock");
    assert!(before.contains(" one ") && before.contains(" two "), "{before}");
    assert_eq!(world.list("guest.sock"), before);
    assert!(world.signs("one", "git") && world.signs("two", "file"));
    let one = format!("signed with one ({}): a signature for git", fingerprint(&world, "one"));
    assert!(world.log().contains(&one));

    world.key("three");
    for (words, what) in [
        (&["-q", "three"][..], "add a key"),
        (&["-q", "-t", "60", "three"], "add a key"),
        (&["-D"], "remove keys"),
        (&["-d", "one"], "remove keys"),
    ] {
        let output = world.guest("ssh-add", words);
        assert!(!output.status.success(), "{words:?}");
        let log = world.log().join("\n");
        assert!(log.contains(&format!("refused: {what}: not for a sandbox")), "{words:?}: {log}");
    }
    assert_eq!(world.list("host.sock"), before, "the host's agent is as it was");
    // The same words change it where nothing stands between.
    assert!(world.at("host.sock", "ssh-add", &["-q", "three"]).status.success());
    assert!(world.list("host.sock").contains(" three "));
    assert!(world.at("host.sock", "ssh-add", &["-D"]).status.success());
    assert!(world.list("host.sock").contains("no identities"));
}

#[test]
fn the_rules_narrow_keys_and_purposes() {
    let world = World::new();
    world.rules.lock().unwrap().keys = vec!["one".into()];
    let listed = world.list("guest.sock");
    assert!(listed.contains(" one ") && !listed.contains(" two "), "{listed}");
    assert!(world.signs("one", "git") && world.signs("one", "file"));
    assert!(!world.signs("two", "git"));
    // ssh-keygen does not ask with a key that is not listed; others may.
    assert_eq!((world.asks("one"), world.asks("two")), (14, 5));
    assert!(world.log().iter().any(|line| line.ends_with("not a key for this sandbox")));

    let two = fingerprint(&world, "two");
    *world.rules.lock().unwrap() = AgentRules { keys: vec![two], git_signatures_only: true };
    assert!(world.signs("two", "git"));
    assert!(!world.signs("two", "file") && !world.signs("one", "git"));
    assert!(world.log().iter().any(|line| line.ends_with("a signature for file: only git may sign")));
}

#[test]
fn an_agent_that_is_gone_is_told_at_once() {
    let mut world = World::new();
    world.agent.kill().unwrap();
    world.agent.wait().unwrap();
    let begin = Instant::now();
    let said = world.list("guest.sock");
    assert!(said.contains("communication with agent failed"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(10));
    let log = world.log().join("\n");
    assert!(log.contains("failed: the host's ssh-agent at ") && log.contains("does not answer"), "{log}");
}
