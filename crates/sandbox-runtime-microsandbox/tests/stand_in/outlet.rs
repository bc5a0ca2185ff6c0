//! The process that serves a sandbox's network: what it is told, what `msb` is told of it, and how long it lives.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use sandbox_model::{
    NetworkProfile, NoProxy, Proxies, SandboxSpec, SecretSpec, SecretValue, SecretValues, Status,
};
use sandbox_runtime::{Runtime, RuntimeError, StopOutcome};
use sandbox_state::{Lock, LockMode, StateError};

use crate::fixture::{Fixture, eventually, kill, name};

const VALUE: &str = "sk-0123456789abcdef";

/// With a folder in the environment this program takes the lock of the outlet of another test, which starts it so,
/// and becomes what stands in for that.
#[test]
fn its_lock_is_held_as_long_as_it_lives() {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    if let (Some(program), Some(dir)) = (named("OUTLET_OF_A_TEST"), named("OUTLET_FOLDER")) {
        let lock = Lock::take(&dir.join("outlet.lock"), LockMode::Exclusive, "network", |_| {}).unwrap();
        fcntl_setfd(lock.as_fd(), FdFlags::empty()).unwrap();
        let error = Command::new("/bin/sh").arg(program).args(["internal", "outlet"]).arg(dir).exec();
        panic!("{error}");
    }
    let fixture = Fixture::served();
    created(&spec(&fixture), &fixture);
    fixture.runtime.start(&name()).unwrap();
    let lock = seen(&fixture, "outlet.lock");
    let is_free = || match Lock::try_take(&lock, LockMode::Exclusive, "test") {
        Err(StateError::Held { .. }) => false,
        taken => taken.map(|_| true).unwrap(),
    };
    assert!(!is_free() && lives(&fixture));
    kill(text(&fixture, "seen-number").trim().parse().unwrap());
    eventually("a free lock", is_free);
    assert!(!lives(&fixture));
}

fn seen(fixture: &Fixture, what: &str) -> PathBuf {
    fixture.file(what)
}

fn text(fixture: &Fixture, what: &str) -> String {
    fs::read_to_string(seen(fixture, what)).unwrap()
}

fn spec(fixture: &Fixture) -> SandboxSpec {
    let mut spec = fixture.spec();
    spec.network.profile = NetworkProfile::Public;
    spec.network.dns_servers = vec!["192.0.2.53".into()];
    spec
}

fn with_secret(fixture: &Fixture) -> SandboxSpec {
    let secret = SecretSpec {
        name: "TOKEN".into(),
        hosts: vec!["api.example.com".parse().unwrap()],
        headers: vec!["authorization".into()],
        query: false,
        body: false,
        fingerprint: "f".into(),
    };
    SandboxSpec { secrets: vec![secret], ..spec(fixture) }
}

fn values() -> SecretValues {
    SecretValues::from([("TOKEN".into(), SecretValue::new(VALUE.into()))])
}

fn created(spec: &SandboxSpec, fixture: &Fixture) {
    fixture.load().unwrap();
    fixture.runtime.create(spec).unwrap();
}

/// Whether one lives.
fn lives(fixture: &Fixture) -> bool {
    let file = fs::File::open(seen(fixture, "seen-life"));
    file.is_ok_and(|file| file.try_lock().is_err())
}

#[track_caller]
fn ends(fixture: &Fixture) {
    let begin = Instant::now();
    while lives(fixture) {
        assert!(begin.elapsed() < Duration::from_secs(20), "it lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn it_is_there_before_the_boot_and_ends_with_the_machine() {
    let fixture = Fixture::served();
    created(&spec(&fixture), &fixture);
    fixture.runtime.start(&name()).unwrap();
    assert!(!text(&fixture, "seen-calls").lines().any(|call| call == "create"), "it comes first");
    let line = text_of_call(&fixture, "create");
    let words = "--proxy socks5://127.0.0.1:4001 --socks5-username sandbox \
         --socks5-password-env AGENTS_SANDBOX_OUTLET_PASSWORD --dns-nameserver 127.0.0.1:4002 ";
    assert!(line.contains(words), "{line}");
    assert!(!line.contains("192.0.2.53"), "the outlet asks it: {line}");
    let rules: Vec<&str> =
        line.match_indices("--net-rule ").map(|(at, word)| &line[at + word.len()..]).collect();
    assert!(rules[0].starts_with("allow@dns ") && rules[1].starts_with("allow@public "), "{line}");

    let config: serde_json::Value = serde_json::from_str(&text(&fixture, "seen-config")).unwrap();
    let password = config["password"].as_str().unwrap();
    assert!(password.len() >= 32 && config["policy"]["profile"] == "public", "{config}");
    assert!(config["at"].is_null(), "it was nowhere yet: {config}");
    assert!(!line.contains(password), "{line}");
    let environment = fs::read_to_string(fixture.msb.join("environment-create")).unwrap();
    assert!(environment.contains(&format!("AGENTS_SANDBOX_OUTLET_PASSWORD={password}\n")));
    assert!(!text(&fixture, "seen-environment").contains(password));
    let machine = fs::read_to_string(fixture.msb.join("machine.number")).unwrap();
    assert_eq!(text(&fixture, "seen-told"), format!("{{\"machine\":{}}}\n", machine.trim()));

    assert!(lives(&fixture), "its machine does");
    fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    ends(&fixture);

    // The next one comes back to where it was, with another password, and msb needs no other word.
    fixture.runtime.start(&name()).unwrap();
    assert_eq!(fixture.calls("create"), 1);
    let next: serde_json::Value = serde_json::from_str(&text(&fixture, "seen-config")).unwrap();
    assert_eq!(next["at"]["relay"], "127.0.0.1:4001");
    assert_ne!(next["password"].as_str().unwrap(), password);
    fixture.runtime.kill(&name()).unwrap();
    ends(&fixture);
}

/// What `msb` was asked.
fn text_of_call(fixture: &Fixture, verb: &str) -> String {
    fs::read_to_string(fixture.msb.join(format!("line-{verb}"))).unwrap()
}

#[test]
fn a_sandbox_that_reaches_nothing_has_none() {
    let fixture = Fixture::served();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    assert_eq!(fixture.calls("list"), 0, "msb cannot know what was never started");
    assert!(!seen(&fixture, "seen-config").exists());
    assert!(!text_of_call(&fixture, "create").contains("--proxy"));
    // The door beside it.
    fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    fixture.runtime.update(&spec(&fixture)).unwrap();
    fixture.runtime.start(&name()).unwrap();
    assert!(seen(&fixture, "seen-config").exists());
}

#[test]
fn a_start_that_fails_leaves_none() {
    let fixture = Fixture::served();
    created(&spec(&fixture), &fixture);
    fixture.fail("create", "error: no such kernel\n");
    let error = fixture.runtime.start(&name()).unwrap_err().to_string();
    assert!(error.contains("no such kernel"), "{error}");
    assert!(!lives(&fixture) && text(&fixture, "seen-told").contains("null"));
    fixture.mend("create");

    // One that does not come up is told with its words, and nothing boots.
    let boots = fixture.calls("create");
    fs::write(fixture.dir.path().join("program-fails"), "error: no port is free\n").unwrap();
    let error = fixture.runtime.start(&name()).unwrap_err().to_string();
    assert!(error.contains("the sandbox's network") && error.contains("no port is free"), "{error}");
    assert_eq!(fixture.calls("create"), boots);
    fs::remove_file(fixture.dir.path().join("program-fails")).unwrap();

    fixture.runtime.start(&name()).unwrap();
    assert!(lives(&fixture));
    fixture.runtime.kill(&name()).unwrap();
    ends(&fixture);
}

#[test]
fn values_are_on_its_pipe_alone_and_the_guest_trusts_the_authority() {
    let fixture = Fixture::served();
    created(&with_secret(&fixture), &fixture);
    assert!(matches!(fixture.runtime.start(&name()), Err(RuntimeError::NoSecretValue { .. })));
    assert!(!lives(&fixture));
    fixture.runtime.start_with(&name(), &values(), None).unwrap();

    let config: serde_json::Value = serde_json::from_str(&text(&fixture, "seen-config")).unwrap();
    assert_eq!(config["secrets"]["values"]["TOKEN"], VALUE);
    for what in ["seen-environment", "seen-arguments"] {
        assert!(!text(&fixture, what).contains(VALUE), "{what}");
    }
    assert!(text(&fixture, "seen-arguments").contains("internal\noutlet\n"));
    for call in ["create", "exec"] {
        assert!(
            !text_of_call(&fixture, call).contains(VALUE) && !text_of_call(&fixture, call).contains("TOKEN")
        );
    }
    assert!(!fs::read_to_string(fixture.msb.join("environment-create")).unwrap().contains(VALUE));

    // As root, before anybody else, and the very one that signs.
    let line = text_of_call(&fixture, "exec");
    assert!(line.contains("--user root") && line.ends_with("/sandbox-guest trust\n"), "{line}");
    let trusted = fs::read_to_string(fixture.msb.join("input-exec")).unwrap();
    assert_eq!(config["secrets"]["authority"]["certificate"].as_str().unwrap(), trusted);
    assert!(trusted.contains("BEGIN CERTIFICATE"));

    // Without secrets it trusts nobody any more, once.
    fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    fixture.runtime.update(&spec(&fixture)).unwrap();
    let asked = fixture.calls("exec");
    for _ in 0..2 {
        fixture.runtime.start(&name()).unwrap();
        fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    }
    assert_eq!(fixture.calls("exec"), asked + 1);
    assert_eq!(fs::read_to_string(fixture.msb.join("input-exec")).unwrap(), "");
}

#[test]
fn a_guest_that_cannot_be_told_whom_to_trust_is_no_sandbox() {
    let fixture = Fixture::served();
    created(&with_secret(&fixture), &fixture);
    fixture.fail("exec", "error: no such program\n");
    match fixture.runtime.start_with(&name(), &values(), None) {
        Err(RuntimeError::BootFailed { problem, .. }) => {
            assert!(problem.contains("which certificate"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.status().0, Status::Crashed);
    ends(&fixture);
}

/// Its machine may be up, but nobody serves its network.
#[test]
fn what_a_killed_start_left_is_powered_off_by_the_next() {
    let fixture = Fixture::served();
    created(&spec(&fixture), &fixture);
    fixture.runtime.start(&name()).unwrap();
    fs::remove_file(seen(&fixture, "machine.pid")).unwrap();
    fs::write(seen(&fixture, "life.json"), "\"starting\"").unwrap();
    assert_eq!(fixture.status(), (Status::Crashed, Some("its start was interrupted".into())));
    let first = fs::read_to_string(fixture.msb.join("machine.number")).unwrap();
    fixture.runtime.start(&name()).unwrap();
    assert_eq!(fixture.status(), (Status::Running, None));
    assert_ne!(fs::read_to_string(fixture.msb.join("machine.number")).unwrap(), first);
    assert_eq!(fixture.calls("stop"), 1, "it was powered off");
    assert!(lives(&fixture));
    fixture.runtime.kill(&name()).unwrap();
    ends(&fixture);
}

/// It is crashed, which is at rest: nothing of it may be up once somebody wanted it to end.
#[test]
fn what_a_killed_start_left_is_powered_off_by_whatever_ends_it() {
    let fixture = Fixture::served();
    created(&spec(&fixture), &fixture);
    let ends_of_it: [fn(&Fixture) -> StopOutcome; 3] = [
        |fixture| fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap(),
        |fixture| fixture.runtime.stop_boot(&name(), "any", Duration::from_secs(1)).unwrap(),
        |fixture| {
            fixture.runtime.remove(&name()).unwrap();
            StopOutcome::Forced
        },
    ];
    for end in ends_of_it {
        fixture.runtime.start(&name()).unwrap();
        fs::write(seen(&fixture, "life.json"), "\"starting\"").unwrap();
        assert_eq!(fixture.status().0, Status::Crashed);
        assert!(!fixture.processes("machine").is_empty(), "the door: it is up");
        assert_eq!(end(&fixture), StopOutcome::Forced);
        eventually("the end of its machine", || fixture.processes("machine").is_empty());
        ends(&fixture);
    }
}

/// Others could listen where it did, and be told by the machine what is meant for it.
#[test]
fn a_machine_that_lost_its_outlet_is_crashed_and_does_not_live_on() {
    let fixture = Fixture::served();
    created(&spec(&fixture), &fixture);
    fixture.runtime.start(&name()).unwrap();
    assert_eq!(fixture.status(), (Status::Running, None));
    let bereave = || {
        let asked = fixture.calls("list");
        kill(text(&fixture, "seen-number").trim().parse().unwrap());
        eventually("a word of it", || fixture.status().0 == Status::Crashed);
        assert!(fixture.status().1.unwrap().contains("serves its network"));
        assert_eq!(fixture.calls("list"), asked, "msb knows nothing of it");
        assert!(!fixture.processes("machine").is_empty(), "the door: its machine is up");
    };
    bereave();
    let first = fixture.processes("machine");
    fixture.runtime.start(&name()).unwrap();
    assert_eq!(fixture.status(), (Status::Running, None));
    assert!(fixture.processes("machine").iter().all(|number| !first.contains(number)));
    let told = fixture.told.lock().unwrap().join("\n");
    assert!(told.contains("boots anew: the process that serves its network"), "{told}");
    bereave();
    let outcome = fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    assert_eq!(outcome, StopOutcome::Forced);
    eventually("the end of its machine", || fixture.processes("machine").is_empty());
    assert_eq!(fixture.status(), (Status::Stopped, None));
}

#[test]
fn placeholders_are_reached_behind_a_proxy_alone_and_no_datagram_passes_by_secrets() {
    let fixture = Fixture::served();
    created(&with_secret(&fixture), &fixture);
    let proxies = Proxies::one("http://127.0.0.1:3128".parse().unwrap(), NoProxy::default());
    for proxies in [None, Some(proxies), None] {
        fixture.runtime.start_with(&name(), &values(), proxies.as_ref()).unwrap();
        let line = text_of_call(&fixture, "create");
        assert_eq!(line.contains("--net-rule allow@198.19.0.0/17:udp"), proxies.is_some(), "{line}");
        let place = |rule: &str| line.find(rule).unwrap_or_else(|| panic!("no {rule}: {line}"));
        assert!(place("deny@any:udp:443 ") < place("allow@public "), "{line}");
        fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    }
    assert_eq!(fixture.calls("create"), 3, "msb is told each time");
}
