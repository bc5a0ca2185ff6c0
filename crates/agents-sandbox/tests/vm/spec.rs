//! A small sandbox; each case changes what it is about.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use sandbox_model::{ByteSize, NetworkPolicy, Resources, SandboxSpec, WorkspaceMount};
use sandbox_runtime::contract::Harness;

use crate::contract::QemuHarness;

/// Of the harness's image, with a checkout and a home of its own, named after `case` and this process.
pub fn plain(harness: &QemuHarness, case: &str) -> Result<SandboxSpec, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let source = harness.workspace_dir().and_then(|dir| dir.canonicalize()).map_err(|error| text(&error))?;
    let owner = fs::metadata(&source).map_err(|error| text(&error))?;
    let image = harness.image();
    Ok(SandboxSpec {
        name: format!("{case}-{}", std::process::id()).parse().map_err(|error| text(&error))?,
        image: image.reference.clone(),
        image_digest: image.digest.clone(),
        resources: Resources { cpus: 1, memory: ByteSize::mib(512) },
        root_disk: ByteSize::gib(1),
        tmp: ByteSize::mib(64),
        home: harness.home_disk().map_err(|error| text(&error))?,
        workspace: WorkspaceMount {
            source,
            quota: ByteSize::mib(256),
            host_uid: owner.uid(),
            host_gid: owner.gid(),
            guest_uid: image.dev_uid,
            guest_gid: image.dev_gid,
        },
        env: BTreeMap::new(),
        network: NetworkPolicy::default(),
        mounts: Vec::new(),
        ports: Vec::new(),
        secrets: Vec::new(),
        ssh_agent: false,
        labels: BTreeMap::new(),
        idle_timeout: Duration::from_hours(1),
        sleep: false,
    })
}
