//! Broken files of every kind that `docs/state-on-disk.md` names: they break one row or one command, with a word
//! about what to do, and stay where they are.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::environment::{Ran, TestEnvironment};
use crate::serve::stand_in;

/// Commands that look at everything; no broken file may stop one.
pub const LISTS: [&[&str]; 5] =
    [&["list"], &["volume", "list"], &["image", "list"], &["df"], &["prune", "--dry-run"]];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    Truncated,
    Empty,
    OtherVersion,
    Folder,
    /// Another user's, as root; else one's own, and closed.
    Foreign,
}

pub const ALL: [Damage; 5] =
    [Damage::Truncated, Damage::Empty, Damage::OtherVersion, Damage::Folder, Damage::Foreign];

/// A file that is there when a sandbox is at rest.
struct Kind {
    /// Below the environment's folder; `SLUG` and `VOLUME` stand for the project's own.
    path: &'static str,
    /// What is done with it next.
    command: &'static [&'static str],
    /// Its text is for people only, or it is made anew by whoever holds its lock.
    rewritten: bool,
}

const fn kind(path: &'static str) -> Kind {
    Kind { path, command: &["exec", "true"], rewritten: false }
}

const fn lock(path: &'static str) -> Kind {
    Kind { rewritten: true, ..kind(path) }
}

const STATE: &[Kind] = &[
    kind("home/state/agents-sandbox/SLUG/opencode/state.yaml"),
    kind("home/state/agents-sandbox/SLUG/opencode/provision.json"),
    Kind { command: &["run"], ..kind("home/state/agents-sandbox/SLUG/opencode/daemon.json") },
    kind("home/state/agents-sandbox/SLUG/approvals.json"),
    Kind { command: &["run", "--notify=off"], ..kind("home/state/agents-sandbox/SLUG/opencode/claims") },
    kind("home/state/agents-sandbox/roots/MARKER"),
    kind("home/state/agents-sandbox/engine-pruned"),
    Kind { command: &["run"], rewritten: true, ..kind("home/state/agents-sandbox/agent-versions.json") },
    Kind { command: &["shell"], ..kind("home/state/agents-sandbox/upgrade.json") },
];

const LOCKS: &[Kind] = &[
    lock("home/state/agents-sandbox/SLUG/opencode/keeper.lock"),
    lock("home/state/agents-sandbox/SLUG/opencode/keeper.sock"),
    lock("home/state/agents-sandbox/SLUG/opencode/keeper.log"),
    Kind { command: &["run"], ..lock("home/state/agents-sandbox/SLUG/opencode/daemon.lock") },
    lock("home/state/agents-sandbox/locks/SLUG/opencode.lock"),
    lock("home/state/agents-sandbox/locks/images.lock"),
    lock("home/state/agents-sandbox/locks/base.lock"),
    Kind { command: &["build"], ..lock("home/state/agents-sandbox/locks/SLUG/opencode.build.lock") },
];

const DATA: &[Kind] = &[
    kind("home/data/agents-sandbox/volumes/VOLUME.ext4"),
    kind("runtime/sandboxes/SLUG-opencode/record.json"),
    kind("home/data/agents-sandbox/engine"),
];

/// A sandbox at rest with one of each file, and its slug.
fn world() -> (TestEnvironment, String) {
    let environment = stand_in("opencode");
    environment.write("home/config/agents-sandbox/opencode/agent/review.md", "look twice");
    environment.write("project/.agents-sandbox/env", "COLOUR=red\n");
    environment.run(&["--yes", "run"]).success();
    rest(&environment);
    let slug = environment.sandbox().strip_suffix("-opencode").unwrap().to_string();
    let state = environment.path("home/state/agents-sandbox");
    for (name, text) in [
        ("engine-pruned", ""),
        ("upgrade.json", "{\"at\":1}\n"),
        ("agent-versions.json", "{\"agents\":{}}\n"),
    ] {
        fs::write(state.join(name), text).unwrap();
    }
    let claims = format!("home/state/agents-sandbox/{slug}/opencode/claims/00.done");
    let build = format!("home/state/agents-sandbox/locks/{slug}/opencode.build.lock");
    for file in
        [&claims, &build, "home/state/agents-sandbox/locks/base.lock", "home/data/agents-sandbox/engine/x"]
    {
        environment.write(file, "process 1 (build)");
    }
    (environment, slug)
}

/// Stopped, and without a keeper.
fn rest(environment: &TestEnvironment) {
    let ran = environment.run(&["stop", "--cold"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let name = environment.sandbox();
    let slug = name.strip_suffix("-opencode").unwrap();
    let lock = environment.path("home/state/agents-sandbox").join(slug).join("opencode/keeper.lock");
    let begun = std::time::Instant::now();
    while sandbox_state::is_locked(&lock).unwrap_or(false) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "the keeper stays");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn place(environment: &TestEnvironment, slug: &str, kind: &Kind) -> PathBuf {
    let mut path = kind.path.replace("SLUG", slug);
    if path.contains("VOLUME") {
        path = path.replace("VOLUME.ext4", &environment.volumes()[0]);
    }
    if path.contains("MARKER") {
        let roots = environment.path("home/state/agents-sandbox/roots");
        let first = fs::read_dir(roots).unwrap().next().unwrap().unwrap().file_name();
        path = path.replace("MARKER", first.to_str().unwrap());
    }
    environment.path(&path)
}

/// What a file is, to be put back.
pub struct Whole {
    path: PathBuf,
    aside: PathBuf,
}

impl Whole {
    /// Puts the file aside, and something broken in its place.
    pub fn break_it(environment: &TestEnvironment, path: &Path, damage: Damage) -> Self {
        let aside = environment.path("whole");
        fs::rename(path, &aside).unwrap();
        // A home is large and sparse; a socket is no file.
        let content = match fs::metadata(&aside) {
            Ok(found) if found.is_file() && found.len() < 1 << 20 => fs::read(&aside).unwrap(),
            _ => vec![0; 4096],
        };
        match damage {
            Damage::Truncated => fs::write(path, &content[..content.len() / 3]).unwrap(),
            Damage::Empty => fs::write(path, "").unwrap(),
            Damage::OtherVersion => fs::write(path, "{\"version\": 999}\n").unwrap(),
            Damage::Folder => fs::create_dir(path).unwrap(),
            Damage::Foreign => {
                fs::write(path, &content).unwrap();
                if rustix::process::geteuid().is_root() {
                    chown(path, Some(65_534), Some(65_534)).unwrap();
                }
                fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
            }
        }
        Self { path: path.into(), aside }
    }

    pub fn put_back(&self) {
        // Whoever asked for a folder may have cleared the broken thing away; nothing else may have.
        match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&self.path).unwrap(),
            Ok(_) => fs::remove_file(&self.path).unwrap(),
            Err(_) => {}
        }
        fs::rename(&self.aside, &self.path).unwrap();
    }
}

/// What can be told of a file without reading what one may not read.
pub fn look(path: &Path) -> (bool, u64, u64) {
    let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (found.is_dir(), found.len(), found.ino())
}

/// It works, or says what is wrong and what to do.
#[track_caller]
pub fn works_or_says(ran: &Ran, what: &str) {
    if ran.code != Some(0) {
        assert_eq!(ran.code, Some(1), "{what}: {ran}");
        assert!(ran.stderr.contains("error: ") && ran.stderr.contains("hint: "), "{what}: {ran}");
        assert!(!ran.stderr.contains("panicked"), "{what}: {ran}");
    }
}

fn damages(kinds: &[Kind]) {
    let (environment, slug) = world();
    for kind in kinds {
        for damage in ALL {
            let path = place(&environment, &slug, kind);
            let what = format!("{} {damage:?}", kind.path);
            let whole = Whole::break_it(&environment, &path, damage);
            let before = look(&path);
            for words in LISTS {
                let ran = environment.run(words);
                assert_eq!(ran.code, Some(0), "{what}: {words:?}: {ran}");
            }
            assert_eq!(look(&path), before, "{what}: a list changed it");
            let ran = environment.run(kind.command);
            works_or_says(&ran, &what);
            // What root may read is whole, and may change.
            let readable = damage == Damage::Foreign && rustix::process::geteuid().is_root();
            if !kind.rewritten && !readable {
                let kept = ran.code != Some(0) || look(&path) == before;
                assert!(kept, "{what}: it was written over without a word: {ran}");
            }
            assert_eq!(environment.volumes().len(), 1, "{what}: {ran}");
            whole.put_back();
            rest(&environment);
        }
        let ran = environment.run(kind.command);
        assert_eq!(ran.code, Some(0), "{}: whole again: {ran}", kind.path);
        rest(&environment);
    }
}

#[test]
fn broken_state_breaks_one_command() {
    damages(STATE);
}

#[test]
fn broken_locks_break_one_command() {
    damages(LOCKS);
}

#[test]
fn broken_data_breaks_one_row() {
    damages(DATA);
}
