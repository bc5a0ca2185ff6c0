//! Starting a machine process and waiting for its word.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;
use rustix::fs::{FileType, fstat};
use sandbox_model::{Proxies, SandboxName, SandboxSpec, SecretValues, Status, holding};
use sandbox_runtime::RuntimeError;
use sandbox_state::{QemuLayout, crash};
use sandbox_wire::MachineRequest;

use crate::error::from_state;
use crate::files::MachineFiles;
use crate::images::ImageStore;
use crate::machine::{MachineConfig, StartReport, tail};
use crate::options::QemuOptions;
use crate::record::{self, SandboxRecord};
use crate::{accel, client, initrd, room, secrets, version};

/// A boot takes one to two seconds on a quiet machine; emulated, beside other work, ten times that.
const BOOT_DEADLINE: Duration = Duration::from_secs(45);
/// A machine log beyond this is put aside before the next boot.
const LOG_LIMIT: u64 = 1 << 20;

#[cfg(target_arch = "x86_64")]
const QEMU: &str = "qemu-system-x86_64";
#[cfg(target_arch = "aarch64")]
const QEMU: &str = "qemu-system-aarch64";

/// The system emulator for this machine's own processor, as the `PATH` has it.
pub fn find_qemu() -> Result<std::path::PathBuf, RuntimeError> {
    which::which(QEMU)
        .map_err(|error| RuntimeError::MissingProgram { program: QEMU.into(), problem: error.to_string() })
}

/// Boots or wakes a sandbox at rest; the caller holds its change lock.
pub fn boot(
    layout: &QemuLayout,
    options: &QemuOptions,
    images: &ImageStore,
    files: &MachineFiles,
    record: SandboxRecord,
    values: &SecretValues,
    proxies: Option<&Proxies>,
) -> Result<(), RuntimeError> {
    let name = record.spec.name.clone();
    let qemu = find_qemu()?;
    let (accels, why_not_kvm) = accel::candidates(options.accel, &layout.dir, &qemu)?;
    if let Some(why) = &why_not_kvm
        && accel::tell_once(&layout.dir, &qemu, why)?
    {
        (options.notice)(&format!("the sandbox is emulated (slower than with KVM): {why}"));
    }
    check_spec(&record.spec)?;
    let secrets = secrets::hand_over(files, &record.spec, values)?;
    let no_sleep = room::why_no_sleep(&record.spec, &qemu, &layout.dir)?;
    if let (true, Some(reason)) = (record.spec.sleep, &no_sleep)
        && version::tell_once(&layout.dir, &qemu)?
    {
        (options.notice)(&format!("the sandbox stops without saving its memory: {reason}"));
    }
    let config = MachineConfig {
        rootfs: images.rootfs(&record.spec.image_digest)?,
        image_env: images.env(&record.spec.image_digest)?,
        spec: record.spec,
        program: options.program.clone(),
        qemu: qemu.clone(),
        kernel: (options.kernel)()?,
        initrd: initrd::initrd(&layout.boot_files()).map_err(from_state)?,
        accels: accels.clone(),
        no_sleep,
        boot_deadline_secs: BOOT_DEADLINE.as_secs(),
        secrets,
        proxies: proxies.cloned(),
    };
    match run_machine(options, files, &config, values)? {
        Some(StartReport::Ready { accel: used, notes, woken }) => {
            for note in &notes {
                (options.notice)(note);
            }
            // Memory knows its own accelerator, which says nothing about the others.
            if woken { Ok(()) } else { accel::remember(&layout.dir, &qemu, &accels, used) }
        }
        Some(StartReport::Failed { problem, log }) => Err(RuntimeError::BootFailed { name, problem, log }),
        // One whose starter died before it could say that it boots: the change lock was free, and so was the machine's.
        Some(StartReport::Taken) => wait_until_running(&name, files),
        None => Err(RuntimeError::BootFailed {
            name,
            problem: "the machine process ended before the guest was ready".into(),
            log: tail(&files.machine_log(), 20),
        }),
    }
}

/// What would only show as a strange failure later. It comes before the machine process, which uses up memory that
/// is saved.
pub fn check_spec(spec: &SandboxSpec) -> Result<(), RuntimeError> {
    let bad = |part: &str, path: &Path, problem| RuntimeError::BadPart {
        name: spec.name.clone(),
        part: part.into(),
        path: path.into(),
        problem,
    };
    if !spec.home.path.exists() {
        return Err(bad("the home volume", &spec.home.path, "is not there"));
    }
    let check = |part: &str, path: &Path, serves: fn(FileType) -> bool, other| match kind_of(path)? {
        Some(kind) if serves(kind) => Ok(()),
        Some(_) => Err(bad(part, path, other)),
        None => Err(bad(part, path, "is not there")),
    };
    check("the checkout", &spec.workspace.source, FileType::is_dir, "is no folder")?;
    spec.mounts.iter().try_for_each(|mount| {
        let part = format!("the mount at {}", mount.target);
        check(&part, &mount.source, |kind| kind.is_dir() || kind.is_file(), "is neither a folder nor a file")
    })
}

/// Opens it as those who serve it do: without a link on the way.
fn kind_of(path: &Path) -> std::io::Result<Option<FileType>> {
    match sandbox_state::open_resolved(path) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(fstat(found)?.st_mode))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn run_machine(
    options: &QemuOptions,
    files: &MachineFiles,
    config: &MachineConfig,
    values: &SecretValues,
) -> Result<Option<StartReport>, RuntimeError> {
    let log = files.machine_log();
    // The console's and the network's logs are kept short by those who write them.
    if fs::metadata(&log).is_ok_and(|found| found.len() > LOG_LIMIT) {
        fs::rename(&log, log.with_extension("log.1"))?;
    }
    let log = fs::OpenOptions::new().create(true).append(true).open(&log)?;
    let mut command = Command::new(&options.program);
    // A guest that breaks out of QEMU or the share server finds no secret in what they inherited.
    let variables: Vec<_> = std::env::vars_os().collect();
    let pairs = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    for name in holding(values, pairs) {
        command.env_remove(name);
    }
    let mut child = command
        .arg("internal")
        .arg("machine")
        .arg(&files.dir)
        .current_dir(&files.dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log.into_parts().0)
        .spawn()
        .map_err(|error| RuntimeError::MissingProgram {
            program: options.program.display().to_string(),
            problem: error.to_string(),
        })?;
    if let Some(stdin) = child.stdin.take() {
        serde_json::to_writer(stdin, config).map_err(std::io::Error::from)?;
    }
    crash::point("the machine boots");
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    match serde_json::from_str(&line) {
        Ok(ready @ StartReport::Ready { .. }) => Ok(Some(ready)),
        Ok(over @ (StartReport::Failed { .. } | StartReport::Taken)) => {
            child.wait()?;
            Ok(Some(over))
        }
        Err(_) => {
            child.wait()?;
            Ok(None)
        }
    }
}

/// Waits for a boot that someone else has under way.
pub fn wait_until_running(name: &SandboxName, files: &MachineFiles) -> Result<(), RuntimeError> {
    let begin = Instant::now();
    loop {
        return match client::connect(name, files, &MachineRequest::Guest, "start") {
            Ok(_) => Ok(()),
            // It has its lock for a moment before it listens.
            Err(RuntimeError::WrongStatus { status: Status::Starting, .. })
                if begin.elapsed() < BOOT_DEADLINE =>
            {
                std::thread::sleep(client::LOOK_AGAIN);
                continue;
            }
            Err(RuntimeError::WrongStatus { name, status: Status::Crashed, .. }) => {
                let problem = fs::read_to_string(files.problem()).unwrap_or_default();
                Err(RuntimeError::BootFailed { name, problem, log: tail(&files.console_log(), 20) })
            }
            Err(other) => Err(other),
        };
    }
}

/// As [`record::status`], with the error that callers of the runtime get.
pub fn status(files: &MachineFiles) -> Result<Status, RuntimeError> {
    record::status(files).map_err(from_state)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sandbox_model::{ByteSize, ExtraMount, HomeDisk, NetworkPolicy, Resources, WorkspaceMount};

    use super::*;

    fn spec(dir: &Path) -> SandboxSpec {
        SandboxSpec {
            name: "shop-4chyvv5c1qh507-opencode".parse().unwrap(),
            image: "agents-sandbox/runner-shop:opencode-latest".parse().unwrap(),
            image_digest: "ab".repeat(32).parse().unwrap(),
            resources: Resources { cpus: 2, memory: ByteSize::gib(4) },
            root_disk: ByteSize::gib(8),
            tmp: ByteSize::mib(64),
            home: HomeDisk { path: dir.join("home.ext4") },
            workspace: WorkspaceMount {
                source: dir.join("shop"),
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
            mounts: vec![ExtraMount { target: "/data".into(), source: dir.join("data"), readonly: true }],
            ports: Vec::new(),
            secrets: Vec::new(),
            idle_timeout: Duration::from_mins(1),
            sleep: false,
        }
    }

    #[test]
    fn what_is_gone_or_something_else_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let spec = spec(&dir);
        let look = || check_spec(&spec).map_err(|error| error.to_string().replace(dir.to_str().unwrap(), ""));
        let of = |words: &str| Err(words.replace("NAME", "sandbox `shop-4chyvv5c1qh507-opencode`"));
        assert_eq!(look(), of("the home volume of NAME is not there: /home.ext4"));
        fs::write(&spec.home.path, "").unwrap();
        assert_eq!(look(), of("the checkout of NAME is not there: /shop"));
        fs::write(&spec.workspace.source, "").unwrap();
        assert_eq!(look(), of("the checkout of NAME is no folder: /shop"));
        fs::remove_file(&spec.workspace.source).unwrap();
        fs::create_dir(&spec.workspace.source).unwrap();
        assert_eq!(look(), of("the mount at /data of NAME is not there: /data"));
        let socket = std::os::unix::net::UnixListener::bind(&spec.mounts[0].source).unwrap();
        assert_eq!(look(), of("the mount at /data of NAME is neither a folder nor a file: /data"));
        drop(socket);
        fs::remove_file(&spec.mounts[0].source).unwrap();
        fs::write(&spec.mounts[0].source, "").unwrap();
        assert_eq!(look(), Ok(()));
    }
}
