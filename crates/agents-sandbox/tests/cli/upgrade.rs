//! A newer release in the place of the program, and everything that keeps it from being replaced.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::environment::{Ran, TestEnvironment};

/// A copy of the program, which may be replaced.
pub fn installed(environment: &TestEnvironment) -> PathBuf {
    let path = environment.path("bin/agents-sandbox");
    std::fs::copy(env!("CARGO_BIN_EXE_agents-sandbox"), &path).unwrap();
    path
}

pub fn file_name(version: &str) -> String {
    format!("agents-sandbox-{version}-{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

/// A folder with one release, which says `says` when asked for its version.
pub fn release(environment: &TestEnvironment, version: &str, says: &str) -> PathBuf {
    let name = file_name(version);
    let script = format!("#!/bin/sh\necho {says}\n");
    let path = environment.write(&format!("release/{name}"), &script);
    let sum = hex::encode(Sha256::digest(script));
    environment.write("release/SHA256SUMS", &format!("{sum}  {name}\n"));
    path.parent().unwrap().into()
}

fn upgrade(environment: &TestEnvironment, program: &PathBuf, words: &[&str]) -> Ran {
    let mut command = Command::new(program);
    command.arg("upgrade").args(["--from", environment.path("release").to_str().unwrap()]).args(words);
    command.current_dir(environment.project()).stdin(std::process::Stdio::null());
    environment.seal(&mut command);
    environment.finish(&mut command)
}

#[test]
fn a_newer_release_takes_the_place_of_the_program() {
    let environment = TestEnvironment::new();
    let program = installed(&environment);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o750)).unwrap();
    release(&environment, "99.1.0", "agents-sandbox 99.1.0");
    let before = std::fs::read(&program).unwrap();
    let ran = upgrade(&environment, &program, &["--check"]);
    assert!(ran.code == Some(0) && ran.stderr.starts_with("99.1.0 is newer than this "), "{ran}");
    // Never without a yes.
    let ran = upgrade(&environment, &program, &[]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("nothing was replaced: there is no terminal"),
        "{ran}"
    );
    assert!(std::fs::read(&program).unwrap() == before);
    let ran = upgrade(&environment, &program, &["--yes"]);
    assert!(ran.code == Some(0) && ran.stderr.contains("this program is 99.1.0 now; it was "), "{ran}");
    let said = Command::new(&program).output().unwrap();
    assert_eq!(said.stdout, b"agents-sandbox 99.1.0\n");
    assert_eq!(std::fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(std::fs::read_dir(environment.path("bin")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn what_is_not_what_it_should_be_replaces_nothing() {
    let environment = TestEnvironment::new();
    let program = installed(&environment);
    let before = std::fs::read(&program).unwrap();
    let unchanged = || {
        assert!(std::fs::read(&program).unwrap() == before);
        assert_eq!(std::fs::read_dir(environment.path("bin")).unwrap().count(), 1);
    };
    let dir = release(&environment, "99.1.0", "agents-sandbox 99.1.0");
    std::fs::write(dir.join(file_name("99.1.0")), "#!/bin/sh\necho evil\n").unwrap();
    let ran = upgrade(&environment, &program, &["--yes"]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("is not what its checksum says; nothing was changed"),
        "{ran}"
    );
    unchanged();
    release(&environment, "99.1.0", "agents-sandbox 0.0.1");
    let ran = upgrade(&environment, &program, &["--yes"]);
    assert!(ran.stderr.contains("does not run as `agents-sandbox 99.1.0`; nothing was changed"), "{ran}");
    unchanged();
    release(&environment, "0.0.1", "agents-sandbox 0.0.1");
    let ran = upgrade(&environment, &program, &["--yes"]);
    assert!(ran.code == Some(0) && ran.stderr.contains("has nothing newer than 0.0.1"), "{ran}");
    unchanged();
    std::fs::remove_file(dir.join("SHA256SUMS")).unwrap();
    let ran = upgrade(&environment, &program, &["--yes"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("SHA256SUMS"), "{ran}");
    unchanged();
}

#[test]
fn only_the_user_says_where_releases_are() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["upgrade"]);
    assert!(ran.stderr.starts_with("error: it is not set where releases of this program are"), "{ran}");
    let ran = environment.run(&["upgrade", "--from", "http://127.0.0.1/x"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("neither a folder nor an https address"), "{ran}");
    environment.write("project/.agents-sandbox/config.yaml", "upgrade:\n  source: /evil\n");
    let ran = environment.run(&["upgrade", "--check"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("upgrade.source"), "{ran}");
}
