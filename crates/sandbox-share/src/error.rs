//! Why a checkout cannot be served.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// What stops the share server, before or while it serves.
#[derive(Debug, Error)]
pub enum ShareError {
    #[error("the shared folder's path is not UTF-8: {}", path.display())]
    PathNotUtf8 { path: PathBuf },
    #[error("user {actual} cannot serve files as user {owner}")]
    WrongUser { owner: u32, actual: u32 },
    #[error("cannot become user {uid}, group {gid}")]
    BecomeOwner { uid: u32, gid: u32, source: rustix::io::Errno },
    #[error("the process has no parent to live with")]
    NoParent,
    #[error("cannot watch the parent process")]
    Lifeline(#[source] rustix::io::Errno),
    #[error("the parent process ended")]
    ParentEnded,
    #[error("cannot raise the limit of open files: {reason}")]
    DescriptorLimit { reason: String },
    #[error("{limit} open files are too few: at least {least} are needed")]
    TooFewDescriptors { limit: u64, least: u64 },
    #[error("cannot enter the sandbox around {}", dir.display())]
    Sandbox { dir: PathBuf, source: virtiofsd::sandbox::Error },
    #[error("no more than {most} folders can be served side by side")]
    TooManyFolders { most: usize },
    #[error("cannot try out the sandbox")]
    Probe(#[source] io::Error),
    #[error("cannot give up capabilities")]
    Capabilities(#[source] capng::Error),
    #[error("cannot filter system calls")]
    Seccomp(#[source] virtiofsd::seccomp::Error),
    #[error("no virtual machine connected within {seconds} s")]
    NobodyConnected { seconds: u64 },
    #[error("cannot open {}", dir.display())]
    Open { dir: PathBuf, source: io::Error },
    #[error("the vhost-user back end cannot start: {reason}")]
    Backend { reason: String },
    #[error("the connection to the virtual machine broke: {reason}")]
    Connection { reason: String },
}
