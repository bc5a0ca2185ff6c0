//! A newer release that a run hears of, from a server on loopback with a certificate of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::environment::{Ran, TestEnvironment};
use crate::tmux::Tmux;
use crate::upgrade::{installed, release};

/// A place with the files of a folder, over https.
struct Place {
    address: String,
    asked: Arc<AtomicUsize>,
    /// Answers nothing.
    silent: Arc<Mutex<bool>>,
}

impl Place {
    fn open(environment: &TestEnvironment) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
        environment.write("certificate.pem", &made.cert.pem());
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Self {
            address: format!("https://{}", listener.local_addr().unwrap()),
            asked: Arc::default(),
            silent: Arc::default(),
        };
        let (asked, silent) = (Arc::clone(&place.asked), Arc::clone(&place.silent));
        let (config, folder) = (Arc::new(config), environment.path("release"));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                asked.fetch_add(1, Ordering::SeqCst);
                let mut stream =
                    StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), socket.unwrap());
                if *silent.lock().unwrap() {
                    let _ = stream.read_to_end(&mut Vec::new());
                    continue;
                }
                let mut line = String::new();
                if BufReader::new(&mut stream).read_line(&mut line).is_err() {
                    continue;
                }
                let name = line.split_whitespace().nth(1).unwrap_or_default().trim_start_matches('/');
                let body = std::fs::read(folder.join(name)).unwrap_or_default();
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(&[head.as_bytes(), &body].concat());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        place
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

struct World {
    environment: TestEnvironment,
    program: PathBuf,
    place: Place,
}

impl World {
    fn new(mode: &str) -> Self {
        let environment = TestEnvironment::new();
        let program = installed(&environment);
        release(&environment, "99.1.0", "agents-sandbox 99.1.0");
        let place = Place::open(&environment);
        let settings = format!("upgrade:\n  mode: {mode}\n  source: {}\n", place.address);
        environment.write("home/config/agents-sandbox/config.yaml", &settings);
        Self { environment, program, place }
    }

    fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(self.environment.project()).stdin(std::process::Stdio::null());
        self.environment.seal(&mut command);
        command.env("SSL_CERT_FILE", self.environment.path("certificate.pem"));
        self.environment.finish(&mut command)
    }

    fn record(&self) -> PathBuf {
        self.environment.path("home/state/agents-sandbox/upgrade.json")
    }

    /// As if the last look had been so many hours ago.
    fn age(&self, hours: i64) {
        let mut record: serde_json::Value =
            serde_json::from_slice(&std::fs::read(self.record()).unwrap()).unwrap();
        record["at"] = (record["at"].as_i64().unwrap() - hours * 3600).into();
        std::fs::write(self.record(), record.to_string()).unwrap();
    }

    fn is_replaced(&self) -> bool {
        std::fs::read(&self.program).unwrap().starts_with(b"#!/bin/sh")
    }
}

const THERE: &str = "version 99.1.0 is there, and this is ";

#[test]
fn it_is_told_once_in_the_interval_and_nothing_is_replaced() {
    for mode in ["notify", "prompt"] {
        let world = World::new(mode);
        // Only a run looks.
        assert!(!world.run(&["list"]).stderr.contains(THERE));
        assert_eq!(world.place.asked(), 0, "{mode}");
        let ran = world.run(&["shell"]);
        assert!(ran.code == Some(0) && ran.stderr.contains(THERE), "{mode}: {ran}");
        assert!(ran.stderr.contains("`agents-sandbox upgrade` takes it"), "{ran}");
        assert_eq!(world.place.asked(), 1, "{mode}");
        world.age(23);
        assert!(!world.run(&["shell"]).stderr.contains(THERE), "{mode}");
        assert_eq!(world.place.asked(), 1, "{mode}");
        world.age(2);
        assert!(world.run(&["shell"]).stderr.contains(THERE), "{mode}");
        assert!(world.place.asked() == 2 && !world.is_replaced(), "{mode}");
    }
}

#[test]
fn auto_replaces_the_program_and_the_new_one_does_what_was_typed() {
    let world = World::new("auto");
    let ran = world.run(&["shell"]);
    assert!(ran.stderr.contains("this program is 99.1.0 now; it was "), "{ran}");
    // The new program of the test says its version whatever it is told.
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "agents-sandbox 99.1.0\n"), "{ran}");
    assert!(world.is_replaced());
    let world = World::new("auto-exit");
    let ran = world.run(&["shell"]);
    assert!(ran.stderr.contains("this program is 99.1.0 now") && ran.stdout.is_empty(), "{ran}");
    assert!(ran.code == Some(0) && world.is_replaced());
    assert_eq!(world.environment.run(&["list", "--names"]).success(), "", "nothing was started");
}

#[test]
fn what_fails_is_not_loud_and_stops_no_run() {
    let world = World::new("auto");
    // A release that is not what its sum says.
    let name = std::fs::read_dir(world.environment.path("release"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("99.1.0"))
        .unwrap();
    std::fs::write(&name, "#!/bin/sh\necho evil\n").unwrap();
    let ran = world.run(&["shell"]);
    assert!(ran.code == Some(0) && ran.stderr.contains(THERE) && !ran.stderr.contains("error"), "{ran}");
    assert!(!world.is_replaced());
    // A place that never answers, and one that nobody trusts.
    world.age(25);
    *world.place.silent.lock().unwrap() = true;
    let begun = std::time::Instant::now();
    let ran = world.run(&["shell"]);
    let quiet = |ran: &Ran| !ran.stderr.contains("error") && !ran.stderr.contains(THERE);
    assert!(ran.code == Some(0) && quiet(&ran), "{ran}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(!world.run(&["shell"]).stderr.contains("newer version"), "and is not asked again");
    *world.place.silent.lock().unwrap() = false;
    world.age(25);
    std::fs::remove_file(world.environment.path("certificate.pem")).unwrap();
    let ran = world.run(&["-l", "verbose", "shell"]);
    assert!(ran.code == Some(0) && ran.stderr.contains("no newer version was found: "), "{ran}");
    // A record that cannot be read is left as it is, and nothing is looked for.
    std::fs::write(world.record(), "{").unwrap();
    let before = world.place.asked();
    assert_eq!(world.run(&["shell"]).code, Some(0));
    assert_eq!((std::fs::read(world.record()).unwrap(), world.place.asked()), (b"{".to_vec(), before));
}

#[test]
fn a_person_is_asked_and_may_skip_a_version() {
    let world = World::new("prompt");
    let tmux = Tmux::new(&world.environment);
    let program = format!(
        "SSL_CERT_FILE={} {} shell; echo \"code $?\"",
        world.environment.path("certificate.pem").display(),
        world.program.display()
    );
    tmux.fresh(&program);
    tmux.wait_for("continue, skip, upgrade or exit?");
    tmux.line("skip");
    tmux.line("exit");
    tmux.wait_for_line("code 0");
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(world.record()).unwrap()).unwrap();
    assert_eq!(record["skipped"], json!("99.1.0"));
    world.age(25);
    assert!(!world.run(&["shell"]).stderr.contains(THERE));
    release(&world.environment, "99.2.0", "agents-sandbox 99.2.0");
    world.age(25);
    tmux.fresh(&program);
    tmux.wait_for("continue, skip, upgrade or exit?");
    tmux.line("exit");
    tmux.wait_for_line("code 0");
    assert!(world.is_replaced());
}
