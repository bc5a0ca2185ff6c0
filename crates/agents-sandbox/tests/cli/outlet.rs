//! What serves the network of a sandbox on microsandbox: the real process, beside a script in the place of `msb`.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox_state::is_locked;

use crate::environment::Ran;
use crate::wedged::World;

const VALUE: &str = "sk-variable-4711";
const PASSWORD: &str = "hunter22-of-the-proxy";

fn world() -> World {
    let world = World::new();
    let secrets = "home/config/agents-sandbox/env.secret.yaml";
    world.environment.write(secrets, "TOKEN: {from-env: HOST_TOKEN, host: api.example}\n");
    fs::set_permissions(world.environment.path(secrets), PermissionsExt::from_mode(0o600)).unwrap();
    world
}

fn folder(world: &World) -> PathBuf {
    world.msb("records/sandboxes").join(world.environment.sandbox())
}

/// The stand-in has no way into its guest: what fails is the command in it.
fn exec(world: &World, value: &str) -> Ran {
    let mut command = world.command(&["exec", "true"]);
    let proxy = format!("http://me:{PASSWORD}@127.0.0.1:9");
    world.environment.finish(
        command
            .env("HOST_TOKEN", value)
            .env("HTTPS_PROXY", proxy)
            .env("AGENTS_SANDBOX_NETWORK_PROFILE", "public"),
    )
}

/// The processes of outlets of this folder.
fn outlets(world: &World) -> Vec<PathBuf> {
    let wanted = format!("internal\0outlet\0{}\0", folder(world).display());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter(|process| {
            fs::read_to_string(process.join("cmdline")).is_ok_and(|line| line.ends_with(&wanted))
        })
        .collect()
}

fn greeted(relay: SocketAddr, methods: &[u8]) -> [u8; 2] {
    let mut stream = TcpStream::connect(relay).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(methods).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    answer
}

#[test]
fn a_sandbox_on_microsandbox_reaches_the_world_through_a_process_that_shows_no_value_and_ends_with_it() {
    let world = world();
    let ran = exec(&world, VALUE);
    assert!(!ran.stderr.contains("does not use the proxy"), "{ran}");
    assert!(world.run(&["list", "--format", "json"]).success().contains("\"running\""), "{ran}");
    assert!(is_locked(&folder(&world).join("outlet.lock")).unwrap());
    let [process] = &outlets(&world)[..] else { panic!("{:?}\n{ran}", outlets(&world)) };
    match fs::read_to_string(process.join("environ")) {
        Ok(environment) => {
            assert!(environment.contains("AGENTS_SANDBOX_"), "nothing is searched: {environment}");
            assert!(!environment.contains(VALUE) && !environment.contains(PASSWORD), "{environment}");
        }
        // It hides even that.
        Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
    }
    let boot = fs::read_to_string(world.msb("environment-create")).unwrap();
    assert!(boot.contains("MSB_HOME=") && !boot.contains(VALUE) && !boot.contains(PASSWORD), "{boot}");

    // It is there, for whoever knows the password.
    let at: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder(&world).join("outlet.json")).unwrap()).unwrap();
    let relay = at["relay"].as_str().unwrap();
    assert!(
        fs::read_to_string(world.msb("line-create")).unwrap().contains(&format!("--proxy socks5://{relay} "))
    );
    let relay = relay.parse().unwrap();
    assert_eq!(greeted(relay, &[5, 1, 2]), [5, 2]);
    assert_eq!(greeted(relay, &[5, 1, 0]), [5, 0xff], "without one");

    // Another value needs no start.
    let ran = exec(&world, "sk-another-4711");
    assert!(ran.stderr.contains("another value from now on, without a restart: TOKEN"), "{ran}");
    assert_eq!(fs::read_to_string(world.msb("calls")).unwrap().matches("create").count(), 1);
    assert_eq!(outlets(&world), std::slice::from_ref(process), "the same one");

    // Whatever it wrote is for `network log`.
    assert_eq!(world.run(&["network", "log"]).code, Some(0));

    world.run(&["kill"]).success();
    let begin = Instant::now();
    while !outlets(&world).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_locked(&folder(&world).join("outlet.lock")).unwrap());
}

#[test]
fn an_outlet_by_hand_says_what_it_lacks() {
    let world = World::new();
    let ran = world.run(&["internal", "outlet"]);
    assert_eq!((ran.code, ran.stderr.trim()), (Some(1), "error: outlet takes the sandbox's folder"));
    let ran = world.run(&["internal", "outlet", "/nowhere"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("configuration on stdin"), "{ran}");
}
