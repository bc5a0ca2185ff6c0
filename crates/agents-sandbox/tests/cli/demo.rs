//! `make demo`, once and again, with stand-ins for what is built and what is installed.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::environment::{Ran, TestEnvironment};

/// Says what it is called with, and does what the agent is asked for.
const PROGRAM: &str = r#"#!/bin/sh
echo "$*" >> "$0.calls"
case $1 in run) sed -i 's/world/world, from inside/' greeting.txt ;; esac
"#;

/// The script and the provider that it starts, in a folder of their own.
fn checkout() -> TestEnvironment {
    let environment = TestEnvironment::new();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["scripts/demo", "tests/fake-provider/fake_provider.py"] {
        let to = environment.write(file, "");
        std::fs::copy(top.join(file), to).unwrap();
    }
    let target = environment.path("target");
    let metadata = format!("#!/bin/sh\necho '{{\"target_directory\": \"{}\"}}'\n", target.display());
    for (file, text) in [
        ("scripts/install-needs", "#!/bin/sh\n"),
        ("bin/cargo", metadata.as_str()),
        ("target/release/agents-sandbox", PROGRAM),
    ] {
        let path = environment.write(file, text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    environment
}

/// What it said, and what the program was called with.
fn demo(environment: &TestEnvironment) -> (Ran, String) {
    let calls = environment.path("target/release/agents-sandbox.calls");
    let _ = std::fs::remove_file(&calls);
    let mut command = Command::new(environment.path("scripts/demo"));
    environment.seal(&mut command);
    let path = format!("{}:{}", environment.path("bin").display(), std::env::var("PATH").unwrap());
    let ran = environment.finish(command.env("PATH", path));
    assert_eq!(ran.code, Some(0), "{ran}");
    (ran, std::fs::read_to_string(calls).unwrap())
}

/// The port of the provider that the project opens to its sandbox.
fn port(environment: &TestEnvironment) -> u16 {
    let path = environment.path(".demo/project/.agents-sandbox/config.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().find_map(|line| line.trim().strip_prefix("- host:")).unwrap().parse().unwrap()
}

#[test]
fn a_demo_ends_no_sandbox_that_may_sleep_since_the_last_one() {
    let environment = checkout();
    let (ran, calls) = demo(&environment);
    assert!(
        ran.stdout.contains("a package source that it refused"),
        "a stranger would take it for a fault: {ran}"
    );
    let first = port(&environment);
    assert!(calls.contains("run --yes -- run ") && !calls.contains("stop"), "{calls}");
    let (_, calls) = demo(&environment);
    assert!(calls.contains("run --yes -- run ") && !calls.contains("stop"), "{calls}");
    assert_eq!(port(&environment), first, "what sleeps goes on with the same provider");
    // Where that cannot be, it says so.
    let _other = TcpListener::bind(("127.0.0.1", first)).unwrap();
    let (ran, calls) = demo(&environment);
    assert!(calls.contains("stop --cold"), "{calls}");
    assert!(ran.stdout.contains(&format!("port {first} of the last demo is taken")), "{ran}");
    assert_ne!(port(&environment), first);
}
