//! Which engine is taken: the first that works, in their order. Stand-ins on PATH, in a process of its own.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use sandbox_image::{EngineName, EngineSetting, EngineSettings, ImageError, find};

const INSIDE: &str = "SANDBOX_IMAGE_TEST_ORDER";
const WORKS: &str = "exit 0";
const FAILS: &str = "echo 'out of order' >&2; exit 1";
/// Longer than anybody waits for an answer.
const HANGS: &str = "exec /bin/sleep 600";
const DOCKER: &str = "[ \"$1\" = version ] && echo '27.0.1 27.0.1'; exit 0";

/// What `find` says where only these programs are there.
fn found(setting: &str, programs: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    // An ordinary user's podman and buildah are not asked without it.
    for (name, script) in programs.iter().chain(&[("newuidmap", WORKS)]) {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "order::inside", "--nocapture"])
        .env(INSIDE, format!("{setting} {}", dir.path().display()))
        .env("PATH", dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.strip_prefix("found: "));
    line.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr))).into()
}

/// Does nothing unless another test calls it.
#[test]
#[allow(clippy::print_stdout, reason = "its caller reads it")]
fn inside() {
    let Ok(wish) = std::env::var(INSIDE) else { return };
    let (setting, dir) = wish.split_once(' ').unwrap();
    let dir = std::path::Path::new(dir);
    let settings = EngineSettings {
        dir: dir.join("engine"),
        runtime_dir: Some(dir.into()),
        ..EngineSettings::default()
    };
    let said = match find(setting.parse::<EngineSetting>().unwrap(), &settings) {
        Ok(engine) => engine.name().to_string(),
        Err(ImageError::NoEngine(error)) => error.to_string(),
        Err(error) => panic!("{error}"),
    };
    println!("\nfound: {said}");
}

#[test]
fn docker_comes_before_podman_and_podman_before_buildah() {
    let all = [("docker", DOCKER), ("podman", WORKS), ("buildah", WORKS)];
    for (at, name) in EngineName::ALL.iter().enumerate() {
        assert_eq!(found("auto", &all[at..]), name.as_str());
    }
    assert_eq!(
        found("auto", &[]),
        "no image engine can be used: docker: not installed; podman: not installed; buildah: not installed"
    );
}

#[test]
fn one_that_does_not_work_is_passed_by() {
    let podman = ("podman", WORKS);
    assert_eq!(found("auto", &[("docker", FAILS), podman]), "podman");
    assert_eq!(found("auto", &[("docker", HANGS), podman]), "podman");
    assert_eq!(found("auto", &[("docker", FAILS), ("podman", FAILS), ("buildah", WORKS)]), "buildah");
    assert_eq!(
        found("auto", &[("docker", FAILS), ("podman", FAILS)]),
        "no image engine can be used: docker: its daemon does not answer: out of order; podman: out of order; \
         buildah: not installed"
    );
}

#[test]
fn the_one_that_is_set_is_the_only_one() {
    let all = [("docker", DOCKER), ("podman", FAILS), ("buildah", WORKS)];
    assert_eq!(found("buildah", &all), "buildah");
    assert_eq!(found("podman", &all), "no image engine can be used: podman: out of order");
}
