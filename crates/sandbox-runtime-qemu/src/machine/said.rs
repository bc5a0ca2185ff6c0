//! What the parts of a machine say, in its log.

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Child;
use tokio::task::JoinHandle;

use super::console::record_part;
use crate::files::MachineFiles;

/// A part that has ended has closed its end of the pipe; a process it left behind may hold it.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Said {
    log: PathBuf,
    readers: Vec<JoinHandle<()>>,
}

impl Said {
    pub fn new(files: &MachineFiles) -> Self {
        Self { log: files.machine_log(), readers: Vec::new() }
    }

    /// Writes down what a part says on its standard error, until it ends. From its start on: one that cannot start
    /// says why.
    pub fn listen(&mut self, part: &mut Child) {
        let Some(stderr) = part.stderr.take() else { return };
        let log = self.log.clone();
        self.readers.push(tokio::spawn(async move {
            if let Err(error) = record_part(stderr, &log).await {
                tracing::warn!("what a part says is no longer written down: {error}");
            }
        }));
    }

    /// Until the last words of parts that have ended are written: they are the ones that are looked for.
    pub async fn finish(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = tokio::time::timeout(LAST_WORDS, reader).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use sandbox_model::{ByteSize, HomeDisk, NetworkPolicy, Resources, SandboxSpec, WorkspaceMount};

    use super::super::config::{Accel, MachineConfig};
    use super::super::parts::{Parts, Ram};
    use super::*;

    fn config(dir: &std::path::Path) -> MachineConfig {
        let spec = SandboxSpec {
            name: "shop-4chyvv5c1qh507-opencode".parse().unwrap(),
            image: "agents-sandbox/runner-shop:opencode-latest".parse().unwrap(),
            image_digest: "ab".repeat(32).parse().unwrap(),
            resources: Resources { cpus: 1, memory: ByteSize::mib(256) },
            root_disk: ByteSize::gib(8),
            tmp: ByteSize::mib(64),
            home: HomeDisk { path: dir.join("home.ext4") },
            workspace: WorkspaceMount {
                // No pipe holds as much: whoever writes it sees that nobody reads it.
                source: format!("/{}", "long".repeat(1 << 20)).into(),
                quota: ByteSize::gib(2),
                host_uid: 1000,
                host_gid: 1000,
                guest_uid: 1000,
                guest_gid: 1000,
            },
            env: BTreeMap::new(),
            network: NetworkPolicy::default(),
            ssh_agent: false,
            labels: BTreeMap::new(),
            mounts: Vec::new(),
            ports: Vec::new(),
            secrets: Vec::new(),
            idle_timeout: Duration::from_mins(1),
            sleep: false,
        };
        MachineConfig {
            spec,
            program: dir.join("part"),
            qemu: dir.join("qemu"),
            kernel: dir.join("kernel"),
            initrd: dir.join("initrd"),
            rootfs: dir.join("rootfs"),
            image_env: Vec::new(),
            accels: vec![Accel::Tcg],
            boot_deadline_secs: 1,
            no_sleep: None,
            secrets: None,
            proxies: None,
        }
    }

    #[tokio::test]
    async fn a_part_that_cannot_start_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let (files, config) = (MachineFiles::new(dir.path()), config(dir.path()));
        fs_err::write(&config.program, "#!/bin/sh\necho \"$1 $2: no such thing\" >&2\nexit 1\n").unwrap();
        fs_err::set_permissions(&config.program, PermissionsExt::from_mode(0o755)).unwrap();
        let ram = Ram { memory: tempfile::tempfile().unwrap(), tsc_khz: None, boot: "the first".into() };
        let outcome = Parts::start(&files, &config, Accel::Tcg, ram, false).await;
        assert_eq!(outcome.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        let said = fs_err::read_to_string(files.machine_log()).unwrap();
        assert_eq!(said, "internal share: no such thing\n");
    }
}
