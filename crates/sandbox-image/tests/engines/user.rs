use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox_state::{Lock, LockMode};

use crate::account::Account;
use crate::workshop::{HOME, rootfs};

/// Runs a flow as whoever runs the tests, with the bootstrapped root file system from the cache.
pub fn as_caller(flow: fn()) {
    if std::env::var_os(HOME).is_some() {
        return flow();
    }
    let dir = tempfile::Builder::new().prefix("asb").tempdir_in("/tmp").unwrap();
    let home = dir.path().to_path_buf();
    let cache = Cache::take("caller");
    cache.seed(&home);
    // The flow runs in a process of its own, so that its home can be named in the environment.
    let mut command = Command::new(std::env::current_exe().unwrap());
    run_test(command.env(HOME, &home), &cache, &home);
    dir.close().unwrap();
}

/// Runs a flow as an ordinary user, who is made for it and removed after it.
pub fn as_ordinary_user(flow: fn()) {
    if std::env::var_os(HOME).is_some() || !rustix::process::geteuid().is_root() {
        return as_caller(flow);
    }
    let user = Account::make(format!("asb{}", std::process::id()));
    let cache = Cache::take("user");
    let binary = user.home.join("tests");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    cache.seed(&user.home);
    sh(&format!("chown -R {0}: {1}", user.name, user.home.display()));
    let mut command = Command::new("runuser");
    command.args(["-u", &user.name, "--"]).arg(binary).env(HOME, &user.home).env("HOME", &user.home);
    command.current_dir(&user.home);
    // The folders of whoever runs the tests are none of this user's.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"XDG_")) {
        command.env_remove(name);
    }
    run_test(&mut command, &cache, &user.home);
}

/// Where the docker of a test listens.
pub fn docker_socket(home: &Path) -> String {
    format!("unix://{}/run/docker.sock", home.display())
}

fn run_test(command: &mut Command, cache: &Cache, home: &Path) {
    let name = std::thread::current().name().unwrap().to_string();
    // The distribution's engines, and no daemon of the machine's.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("/usr/bin:/usr/sbin:/sbin:{path}")).env("DOCKER_HOST", docker_socket(home));
    // docker's client keeps what it is, when it first builds, in the folder of its settings.
    // The other engines look for logins there, and want the file.
    let client = home.join("docker-client");
    fs::create_dir(&client).unwrap();
    fs::write(client.join("config.json"), "{}").unwrap();
    let owner = fs::metadata(home).unwrap();
    for place in [&client, &client.join("config.json")] {
        chown(place, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    command.env("DOCKER_CONFIG", client);
    let status = command.args(["--exact", &name, "--nocapture"]).status().unwrap();
    cache.keep(home);
    assert!(status.success(), "the flow ended with {status}");
}

fn sh(script: &str) {
    let status = Command::new("sh").args(["-euc", script]).status().unwrap();
    assert!(status.success(), "{script}: {status}");
}

/// A root file system that one kind of user bootstrapped.
struct Cache {
    file: PathBuf,
    lock: std::cell::RefCell<Option<Lock>>,
}

impl Cache {
    /// Waits while another test bootstraps.
    fn take(kind: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bases");
        let file = dir.join(format!("{kind}.tar"));
        let lock =
            Lock::take(&dir.join(format!("{kind}.lock")), LockMode::Exclusive, "test", |_| {}).unwrap();
        // Only who has to make it keeps the others waiting.
        let lock = if file.exists() { None } else { Some(lock) };
        Self { file, lock: lock.into() }
    }

    fn seed(&self, home: &Path) {
        if self.file.exists() {
            let target = rootfs(home);
            // The folders must be the user's alone.
            let dir = target.parent().unwrap();
            sh(&format!(
                "umask 077; mkdir -p {0}; cp {1} {2}",
                dir.display(),
                self.file.display(),
                target.display()
            ));
        }
    }

    fn keep(&self, home: &Path) {
        if !self.file.exists() && rootfs(home).exists() {
            let new = self.file.with_extension("new");
            fs::copy(rootfs(home), &new).unwrap();
            fs::rename(new, &self.file).unwrap();
        }
        self.lock.take();
    }
}

#[test]
fn an_account_leaves_nothing_behind() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let account = Account::make(format!("asb-gone-{}", std::process::id()));
    let (name, home) = (account.name.clone(), account.home.clone());
    let left = Path::new("/tmp").join(format!("{name}-left"));
    let script =
        format!("mkdir {0}.new && touch {0}.new/file && mv {0}.new {0} && exec sleep 600", left.display());
    let mut child = Command::new("runuser")
        .args(["-u", &name, "--", "sh", "-c", &script])
        .current_dir("/")
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !left.exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the user's process does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(account);
    assert!(!child.wait().unwrap().success(), "its process was ended");
    assert!(!left.exists() && !home.exists());
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    assert!(!passwd.lines().any(|line| line.starts_with(&format!("{name}:"))), "{passwd}");
}
