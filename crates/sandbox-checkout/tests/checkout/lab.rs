use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder for repositories, removed at the end.
pub struct Lab {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl Lab {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let root = dir.path().canonicalize().unwrap();
        Self { _dir: dir, root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A repository with one commit.
    pub fn repository(&self, name: &str) -> PathBuf {
        let root = self.folder(name);
        self.git(&root, &["init", "-q", "-b", "main", "."]);
        self.commit(&root);
        root
    }

    /// A bare repository with one commit on `main`.
    pub fn bare(&self, name: &str) -> PathBuf {
        let source = self.repository(&format!("source of {}", name.replace('/', " ")));
        let bare = self.path(name);
        self.git(&self.root, &["clone", "-q", "--bare", source.to_str().unwrap(), bare.to_str().unwrap()]);
        self.git(&bare, &["remote", "remove", "origin"]);
        bare
    }

    pub fn commit(&self, root: &Path) {
        self.git(root, &["commit", "-q", "--allow-empty", "-m", "start"]);
    }

    pub fn git(&self, folder: &Path, arguments: &[&str]) {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.invalid",
                "-c",
                "protocol.file.allow=always",
            ])
            .args(["-c", "safe.directory=*", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.root)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {errors}");
    }

    pub fn pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }
}

/// Runs `work` without the power of root over files. On Linux the identity for file access belongs to a
/// thread, so a thread of its own gives it up and ends.
pub fn without_the_power_of_root<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                if rustix::process::geteuid().is_root() {
                    let capabilities = rustix::thread::capabilities(None).unwrap();
                    let none = rustix::thread::CapabilitySets {
                        effective: rustix::thread::CapabilitySet::empty(),
                        ..capabilities
                    };
                    rustix::thread::set_capabilities(None, none).unwrap();
                }
                work()
            })
            .join()
            .unwrap()
    })
}

pub fn hash_of(path: &Path) -> String {
    sandbox_model::hash_part(path.as_os_str().as_encoded_bytes())
}
