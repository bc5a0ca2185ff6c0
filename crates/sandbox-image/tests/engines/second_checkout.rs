//! A second checkout of a project takes every layer from the engine's cache, with each engine that we use.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_image::EngineName;
use sandbox_model::CheckoutSlug;

use crate::user::{as_caller, docker_socket};
use crate::workshop::{Log, Workshop, own_home};

#[test]
fn with_docker() {
    as_caller(|| {
        let _daemon = Daemon::start();
        flow(EngineName::Docker);
    });
}

#[test]
fn with_podman() {
    as_caller(|| flow(EngineName::Podman));
}

#[test]
fn with_buildah() {
    as_caller(|| flow(EngineName::Buildah));
}

const DOCKERFILE: &str = "\
FROM localhost/agents-sandbox/base:trixie AS start
COPY stubs/ /usr/local/bin/
FROM start
COPY setup.conf /etc/setup.conf
RUN echo \"the project's step $((20 + 22)) ran\"
";
/// What the steps print when they run; no line of a Dockerfile has it.
const RAN: [&str; 2] = ["the project's step 42 ran", "the agent's step 42 ran"];

fn flow(engine: EngineName) {
    let mut shop = Workshop::open_with(engine);
    assert_eq!(shop.engine.name(), engine);
    shop.write("Dockerfile", DOCKERFILE);
    shop.write("setup.conf", "colour = blue\n");
    for name in ["stubs/node", "stubs/npm"] {
        shop.write_program(name, "#!/bin/sh\necho v24.0.0\n");
    }
    shop.recipe.install.push_str("echo \"the agent's step $((20 + 22)) ran\"\n");

    let (built, log) = build(&shop);
    for line in RAN {
        assert!(log.iter().any(|seen| seen.contains(line)), "`{line}` is not in {log:#?}");
    }
    let image = shop.image();
    assert_eq!(image.id, built.hex());
    assert_eq!(image.text("/etc/setup.conf"), "colour = blue\n");

    // The same project once more, somewhere else: another tag, and the same content.
    shop.checkout = CheckoutSlug::new("work", &shop.home().join("elsewhere"));
    let (again, log) = build(&shop);
    for line in RAN {
        assert!(log.iter().all(|seen| !seen.contains(line)), "`{line}` was run again: {log:#?}");
    }
    let words = ["CACHED", "Using cache"];
    assert!(log.iter().any(|seen| words.iter().any(|word| seen.contains(word))), "no cache in {log:#?}");
    assert_eq!(again, built, "the same layers make the same image");

    // The door beside the wall: what changed is run.
    shop.write("setup.conf", "colour = red\n");
    let (_, log) = build(&shop);
    assert!(log.iter().any(|seen| seen.contains(RAN[0])), "a changed file runs its step: {log:#?}");
}

fn build(shop: &Workshop) -> (sandbox_model::Digest, Vec<String>) {
    let mut log = Log::default();
    let built = shop.ensure(&mut log, false).unwrap_or_else(|error| panic!("{error}: {:#?}", log.lines));
    assert!(built.built, "this checkout has no image yet");
    (built.digest, log.lines)
}

/// An engine of the test's own: its data, its socket, and nothing of the machine's network touched.
struct Daemon(Child);

impl Daemon {
    fn start() -> Self {
        let home = own_home();
        let dir = home.join("docker");
        for dir in [&dir, &home.join("run")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let child = Command::new("dockerd")
            .arg("--data-root")
            .arg(dir.join("data"))
            .arg("--exec-root")
            .arg(dir.join("exec"))
            .arg("--pidfile")
            .arg(dir.join("pid"))
            .arg("--host")
            .arg(docker_socket(&home))
            .args(["--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"])
            .arg("--bridge=none")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("dockerd");
        let daemon = Self(child);
        let begin = Instant::now();
        let answers =
            || Command::new("docker").arg("version").stdout(Stdio::null()).status().unwrap().success();
        while !answers() {
            let said = || std::fs::read_to_string(dir.join("log")).unwrap();
            assert!(begin.elapsed() < Duration::from_mins(2), "dockerd does not answer: {}", said());
            std::thread::sleep(Duration::from_millis(200));
        }
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let begin = Instant::now();
        while self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begin.elapsed() > Duration::from_secs(30) {
                let _ = self.0.kill();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
