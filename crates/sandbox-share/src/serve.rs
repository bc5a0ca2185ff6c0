//! The order of things, from a fresh process to the end of the virtual machine.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{fstat, stat};
use rustix::process::fchdir;
use vhost::vhost_user;
use vhost_user_backend::{Error as BackendError, VhostUserDaemon};
use virtiofsd::limits;
use virtiofsd::passthrough::{self, CachePolicy, MigrationOnError, PassthroughFs};
use virtiofsd::sandbox::{Sandbox, SandboxMode};
use virtiofsd::vhost_user::VhostUserFsBackendBuilder;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

use crate::config::ShareConfig;
use crate::descriptors::Descriptors;
use crate::error::ShareError;
use crate::filesystem::{BELIEF, MOST, Root, Roots, ShareFs};
use crate::ids;
use crate::policy::{AllowAll, Policy, ReadOnly};
use crate::process::lifeline::Parent;
use crate::process::owner::{self, Acting};
use crate::process::trees;
use crate::process::walls::{self, Inside};

/// How long a virtual machine may take to connect after the server was started.
const CONNECT_WITHIN: Duration = Duration::from_mins(1);

/// Serves the checkout to the one virtual machine that connects to `listener`, until it disconnects.
///
/// To be called in a fresh process with a single thread: the process forks, becomes another user and
/// filters its own system calls. The calling process waits for the inner one and exits with it, so
/// this returns in the inner process only. Both end when the process that started them ends.
#[expect(clippy::needless_pass_by_value, reason = "the process is given over to this one share")]
pub fn serve(config: ShareConfig, listener: UnixListener) -> Result<(), ShareError> {
    let parent = Parent::find()?;
    let limit = limits::setup_rlimit_nofile(None).map_err(|reason| ShareError::DescriptorLimit { reason })?;
    let descriptors = Descriptors::divide(limit, config.max_descriptors)?;
    let acting = owner::become_owner(&config)?;
    let trees = trees::open(&config)?;
    let dir = trees::open_resolved(&config.dir)?;
    let Inside { mut sandbox, listener, mode } = walls::enter(&config, listener)?;
    let root = root_dir(&config, &sandbox, mode, &dir)?;
    walls::drop_capabilities()?;
    log::info!("serving {} as {}:{} in {mode:?} mode", config.dir.display(), acting.uid, acting.gid);
    parent.await_connection(&listener, CONNECT_WITHIN)?;
    let inner = roots(&config, &mut sandbox, root, acting, descriptors.hard, trees)?;
    walls::filter_system_calls()?;
    parent.watch()?;
    let policy: Box<dyn Policy> = if config.readonly { Box::new(ReadOnly) } else { Box::new(AllowAll) };
    let share = ShareFs::new(inner, policy, descriptors.budget, config.quota_bytes);
    let share = share.opening_at_most(descriptors.hard);
    run(share, listener)
}

/// By which path the checkout is found from now on, where `dir` was opened without links: whoever works in a
/// folder around it may have put a link in its place since.
fn root_dir(
    config: &ShareConfig,
    sandbox: &Sandbox,
    mode: SandboxMode,
    dir: &OwnedFd,
) -> Result<String, ShareError> {
    let failed = |source: io::Error| ShareError::Open { dir: config.dir.clone(), source };
    if mode == SandboxMode::None {
        fchdir(dir).map_err(|error| failed(error.into()))?;
        return Ok(".".into());
    }
    // The walls were built around its path.
    let inside = sandbox.get_root_dir();
    let (found, meant) = stat(inside.as_str())
        .and_then(|found| Ok((found, fstat(dir)?)))
        .map_err(|error| failed(error.into()))?;
    if (found.st_dev, found.st_ino) != (meant.st_dev, meant.st_ino) {
        return Err(failed(io::Error::other("another folder was put in its place")));
    }
    Ok(inside)
}

/// The checkout, or the folders that are served side by side: their `trees` are open.
fn roots(
    config: &ShareConfig,
    sandbox: &mut Sandbox,
    dir: String,
    acting: Acting,
    descriptors: u64,
    trees: Vec<OwnedFd>,
) -> Result<Roots, ShareError> {
    let (proc_self, mounts) = (sandbox.get_proc_self_fd(), sandbox.get_mountinfo_fd());
    if config.several.is_empty() {
        return pass_through(config, dir, (proc_self, mounts), acting, descriptors).map(Roots::from);
    }
    if config.several.len() > MOST {
        return Err(ShareError::TooManyFolders { most: MOST });
    }
    let mut roots = Vec::new();
    for (part, dir) in config.several.iter().zip(trees) {
        let again =
            |file: &Option<File>| file.as_ref().map(File::try_clone).transpose().map_err(ShareError::Probe);
        let inside = (again(&proc_self)?, again(&mounts)?);
        let fs = pass_through(config, ".".into(), inside, acting, descriptors)?;
        let file = part.file.as_ref().map(|name| CString::new(name.as_bytes())).transpose();
        let file = file.map_err(|_| ShareError::PathNotUtf8 { path: part.dir.clone() })?;
        roots.push(Root { fs, dir, file, readonly: part.readonly });
    }
    Roots::several(roots).map_err(ShareError::Probe)
}

/// The pass-through file system over one folder; what it needs of `/proc` is open.
fn pass_through(
    config: &ShareConfig,
    root_dir: String,
    (proc_sfd_rawfd, proc_mountinfo_rawfd): (Option<File>, Option<File>),
    acting: Acting,
    descriptors: u64,
) -> Result<PassthroughFs, ShareError> {
    PassthroughFs::new(passthrough::Config {
        root_dir,
        proc_sfd_rawfd,
        proc_mountinfo_rawfd,
        entry_timeout: BELIEF,
        attr_timeout: BELIEF,
        // File contents are checked again at every open: the host writes to the checkout too.
        cache_policy: CachePolicy::Auto,
        readdirplus: true,
        announce_submounts: true,
        allow_mmap: true,
        guest_fd_limit: descriptors,
        // A file that is gone when the guest wakes is an error of that file, not of the whole share.
        migration_on_error: MigrationOnError::GuestError,
        uid_map: Some(ids::map(config.host_uid, acting.uid, config.guest_uid)),
        gid_map: Some(ids::map(config.host_gid, acting.gid, config.guest_gid)),
        ..Default::default()
    })
    .map_err(|source| ShareError::Open { dir: config.dir.clone(), source })
}

fn run(share: ShareFs, listener: UnixListener) -> Result<(), ShareError> {
    // One thread serves all requests: a pool was measured to be slower.
    let backend = VhostUserFsBackendBuilder::default()
        .set_thread_pool_size(0)
        .build(share)
        .map_err(|error| ShareError::Backend { reason: error.to_string() })?;
    let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
    let mut daemon = VhostUserDaemon::new("share".to_owned(), Arc::new(backend), memory)
        .map_err(|error| ShareError::Backend { reason: error.to_string() })?;
    daemon
        .start(&mut listener.into())
        .map_err(|error| ShareError::Connection { reason: error.to_string() })?;
    match daemon.wait() {
        Ok(()) | Err(BackendError::HandleRequest(vhost_user::Error::Disconnected)) => Ok(()),
        Err(error) => Err(ShareError::Connection { reason: error.to_string() }),
    }
}
