//! The processes of one boot: share server, network bridge, QEMU.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{FileType, fstat};
use sandbox_model::ExtraMount;
use sandbox_network::{BridgeConfig, RunAs, needs_card};
use sandbox_share::{ShareConfig, SharePart};
use sandbox_wire::BootNetwork;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::config::{Accel, MachineConfig};
use super::monitor::Monitor;
use super::part_end::Watched;
use super::qemu_command::QemuCommand;
use super::said::Said;
use super::spawn;
use crate::files::MachineFiles;
use crate::memory::new_ram;

/// A boot's processes. Dropping it kills them.
#[derive(Debug)]
pub struct Parts {
    pub qemu: Child,
    pub share: Child,
    /// The share server of the mounts beside the checkout.
    pub mounts: Option<Child>,
    pub network: Option<Network>,
    /// The host's ends of the guest link and of the console.
    pub link: Option<UnixStream>,
    pub console: Option<UnixStream>,
    /// Keeps QEMU's end of the guest link open when the link itself is over: to the guest, the host stays
    /// connected while it falls asleep.
    _link: UnixStream,
    pub monitor: Monitor,
    pub ram: Ram,
    said: Said,
}

/// The guest's memory, with what the guest's kernel was told of the time stamp counter, and the name of the boot
/// that it began with.
#[derive(Debug)]
pub struct Ram {
    pub memory: std::fs::File,
    pub tsc_khz: Option<u64>,
    pub boot: String,
}

impl Ram {
    /// For a boot.
    pub fn new(config: &MachineConfig, tsc_khz: Option<u64>) -> std::io::Result<Self> {
        let boot = format!("{:032x}", rand::random::<u128>());
        Ok(Self { memory: new_ram(bytes(config))?, tsc_khz, boot })
    }
}

/// How much memory QEMU is told to have: whole megabytes.
pub const fn bytes(config: &MachineConfig) -> u64 {
    config.spec.resources.memory.as_mib() << 20
}

/// What QEMU is told: `incoming` waits for a saved state.
pub fn command(
    config: &MachineConfig,
    accel: Accel,
    tsc_khz: Option<u64>,
    incoming: bool,
) -> QemuCommand<'_> {
    QemuCommand {
        name: config.spec.name.as_str(),
        accel,
        resources: config.spec.resources,
        kernel: &config.kernel,
        initrd: &config.initrd,
        rootfs: &config.rootfs,
        home: &config.spec.home.path,
        link_fd: 3,
        console_fd: 4,
        monitor_fd: 5,
        ram_fd: 6,
        network_fd: needs_card(&config.spec.network).then_some(7),
        mounts: !config.spec.mounts.is_empty(),
        tsc_khz,
        incoming,
    }
}

/// The process of the network bridge.
#[derive(Debug)]
pub struct Network {
    pub child: Child,
    /// Where it is told other values of secrets.
    pub values: Option<ChildStdin>,
    ready: BufReader<ChildStdout>,
}

impl Network {
    /// The guest's addresses, once the engine has them.
    pub async fn settings(&mut self) -> std::io::Result<BootNetwork> {
        let mut line = String::new();
        self.ready.read_line(&mut line).await?;
        if line.is_empty() {
            return Err(std::io::Error::other("the network bridge ended before it was ready"));
        }
        serde_json::from_str(&line).map_err(std::io::Error::other)
    }
}

impl Parts {
    /// Starts all three at once: QEMU connects to sockets that exist already.
    pub async fn start(
        files: &MachineFiles,
        config: &MachineConfig,
        accel: Accel,
        ram: Ram,
        incoming: bool,
    ) -> std::io::Result<Self> {
        let mut said = Said::new(files);
        match Self::start_all(files, config, accel, ram, incoming, &mut said).await {
            Ok(parts) => Ok(Self { said, ..parts }),
            Err(error) => {
                said.finish().await;
                Err(error)
            }
        }
    }

    async fn start_all(
        files: &MachineFiles,
        config: &MachineConfig,
        accel: Accel,
        ram: Ram,
        incoming: bool,
        said: &mut Said,
    ) -> std::io::Result<Self> {
        let share = start_share(files, config, said).await?;
        let mounts = start_mounts(files, config, said).await?;
        let (network, network_fd) = if needs_card(&config.spec.network) {
            let (ours, qemus) = UnixStream::pair()?;
            (Some(start_network(files, config, ours, said).await?), Some(OwnedFd::from(qemus)))
        } else {
            (None, None)
        };
        let (link, qemus_link) = UnixStream::pair()?;
        let (console, qemus_console) = UnixStream::pair()?;
        let (monitor, qemus_monitor) = UnixStream::pair()?;
        let command = command(config, accel, ram.tsc_khz, incoming);
        let mut qemu = std::process::Command::new(&config.qemu);
        qemu.args(command.arguments()).current_dir(&files.dir).stdin(Stdio::null()).stdout(Stdio::null());
        // A guest can make it complain as often as it likes.
        qemu.stderr(Stdio::piped());
        let memory = ram.memory.try_clone()?;
        let mut fds =
            vec![qemus_link.into(), qemus_console.into(), OwnedFd::from(qemus_monitor), memory.into()];
        fds.extend(network_fd);
        spawn::prepare(&mut qemu, fds);
        let mut qemu = Command::from(qemu).kill_on_drop(true).spawn().map_err(|error| {
            std::io::Error::new(error.kind(), format!("cannot start {}: {error}", config.qemu.display()))
        })?;
        said.listen(&mut qemu);
        let monitor = Monitor::new(monitor)?;
        let kept = link.try_clone()?;
        Ok(Self {
            said: Said::new(files),
            _link: kept,
            qemu,
            share,
            mounts,
            network,
            link: Some(link),
            console: Some(console),
            monitor,
            ram,
        })
    }

    /// All of them.
    pub fn watched(&mut self) -> Watched<'_> {
        Watched {
            qemu: &mut self.qemu,
            share: &mut self.share,
            mounts: self.mounts.as_mut(),
            network: self.network.as_mut().map(|network| &mut network.child),
        }
    }

    /// Kills what is left and waits until it is gone.
    pub async fn end(mut self) {
        self.kill().await;
    }

    /// [`Parts::end`] for whoever still has a look at what is left of them.
    pub async fn kill(&mut self) {
        let mut children = vec![&mut self.qemu, &mut self.share];
        children.extend(self.mounts.as_mut());
        children.extend(self.network.as_mut().map(|network| &mut network.child));
        for child in children {
            if let Err(error) = child.kill().await {
                tracing::warn!("cannot end a part: {error}");
            }
        }
        self.said.finish().await;
    }
}

async fn internal(
    config: &MachineConfig,
    arguments: &[&str],
    fds: Vec<OwnedFd>,
    stdin: Vec<u8>,
    stdout: Stdio,
    said: &mut Said,
) -> std::io::Result<(Child, Option<ChildStdin>)> {
    let mut command = std::process::Command::new(&config.program);
    command.arg("internal").args(arguments).stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped());
    spawn::prepare(&mut command, fds);
    let mut child = Command::from(command).kill_on_drop(true).spawn()?;
    said.listen(&mut child);
    let mut pipe = child.stdin.take();
    if let Some(pipe) = &mut pipe {
        pipe.write_all(&stdin).await?;
    }
    Ok((child, pipe))
}

fn share_config(config: &MachineConfig) -> ShareConfig {
    let workspace = &config.spec.workspace;
    ShareConfig {
        dir: workspace.source.clone(),
        quota_bytes: workspace.quota.bytes(),
        readonly: false,
        host_uid: workspace.host_uid,
        host_gid: workspace.host_gid,
        guest_uid: workspace.guest_uid,
        guest_gid: workspace.guest_gid,
        max_descriptors: None,
        several: Vec::new(),
    }
}

async fn start_share(
    files: &MachineFiles,
    config: &MachineConfig,
    said: &mut Said,
) -> std::io::Result<Child> {
    serve_share(config, &share_config(config), &files.share_socket(), said).await
}

/// One server for all of them, under their numbers.
async fn start_mounts(
    files: &MachineFiles,
    config: &MachineConfig,
    said: &mut Said,
) -> std::io::Result<Option<Child>> {
    let several: Vec<SharePart> =
        config.spec.mounts.iter().map(share_part).collect::<std::io::Result<_>>()?;
    let Some(first) = several.first() else { return Ok(None) };
    let share = ShareConfig { dir: first.dir.clone(), several, ..share_config(config) };
    serve_share(config, &share, &files.mounts_socket(), said).await.map(Some)
}

/// A single file is one name of its folder, so that it may be replaced.
fn share_part(mount: &ExtraMount) -> std::io::Result<SharePart> {
    let (source, readonly) = (&mount.source, mount.readonly);
    let found = fstat(sandbox_state::open_resolved(source)?)?;
    if FileType::from_raw_mode(found.st_mode).is_dir() {
        return Ok(SharePart { dir: source.clone(), file: None, readonly });
    }
    match (source.parent(), source.file_name()) {
        (Some(dir), Some(name)) => Ok(SharePart { dir: dir.into(), file: Some(name.into()), readonly }),
        _ => Err(std::io::ErrorKind::InvalidInput.into()),
    }
}

async fn serve_share(
    config: &MachineConfig,
    share: &ShareConfig,
    socket: &Path,
    said: &mut Said,
) -> std::io::Result<Child> {
    let listener: UnixListener = sandbox_state::bind_socket(socket).map_err(std::io::Error::other)?;
    let arguments = ["share", "--listener-fd", "3"];
    let (fds, text) = (vec![listener.into()], serde_json::to_vec(share)?);
    let (child, _) = internal(config, &arguments, fds, text, Stdio::null(), said).await?;
    Ok(child)
}

async fn start_network(
    files: &MachineFiles,
    config: &MachineConfig,
    socket: UnixStream,
    said: &mut Said,
) -> std::io::Result<Network> {
    let workspace = &config.spec.workspace;
    let as_root = rustix::process::geteuid().is_root();
    let owner = RunAs { uid: workspace.host_uid, gid: workspace.host_gid };
    let bridge = BridgeConfig {
        policy: config.spec.network.clone(),
        // Guests never see each other: all of them may have the same addresses.
        slot: 0,
        secrets: config.secrets.clone(),
        proxies: config.proxies.clone(),
        run_as: (as_root && owner.uid != 0).then_some(owner),
        log: None,
    };
    // Opened here: the bridge has no right to files of ours.
    let log = fs_err::OpenOptions::new().create(true).append(true).open(files.network_log())?;
    let fds = vec![socket.into(), log.into_parts().0.into()];
    let arguments = ["network", "--socket-fd", "3", "--log-fd", "4"];
    let text = serde_json::to_vec(&bridge)?;
    let (mut child, values) = internal(config, &arguments, fds, text, Stdio::piped(), said).await?;
    let stdout = child.stdout.take().ok_or_else(|| std::io::Error::other("the bridge has no output"))?;
    Ok(Network { child, values, ready: BufReader::new(stdout) })
}
