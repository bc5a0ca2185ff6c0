//! What the share server is told by whoever starts it.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One checkout to serve; arrives as one JSON document on standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareConfig {
    /// The checkout: absolute and resolved.
    pub dir: PathBuf,
    /// Bytes the guest may add on top of what is there while this server runs; 0 is no limit.
    pub quota_bytes: u64,
    /// Every change is refused, whoever asks in the guest.
    #[serde(default)]
    pub readonly: bool,
    /// The checkout's owner on the host. The server becomes this user when root starts it.
    pub host_uid: u32,
    /// The owner's group on the host, which the server takes as well.
    pub host_gid: u32,
    /// Who owns the owner's files in the guest.
    pub guest_uid: u32,
    /// The group of the files of `host_gid` in the guest.
    pub guest_gid: u32,
    /// How many descriptors the guest's cached and open files may hold here; `None` is a share of
    /// what the process may open.
    #[serde(default)]
    pub max_descriptors: Option<u64>,
    /// Folders and files to serve side by side, under their numbers from 0, instead of `dir`, which is one of the
    /// folders then. `quota_bytes` is for all of them together.
    #[serde(default)]
    pub several: Vec<SharePart>,
}

/// One of several folders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharePart {
    /// The folder: absolute and resolved.
    pub dir: PathBuf,
    /// Serve only the file of this name in it, whichever that is at any time.
    #[serde(default)]
    pub file: Option<OsString>,
    /// As [`ShareConfig::readonly`], for this one alone.
    #[serde(default)]
    pub readonly: bool,
}
