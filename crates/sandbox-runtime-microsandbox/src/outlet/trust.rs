//! The certificate that a guest trusts where its TLS is looked into.

use std::io::ErrorKind;

use fs_err as fs;
use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;

use crate::call::{Msb, failed};
use crate::command;
use crate::files::SandboxPaths;

/// Has the guest that has just booted trust `certificate` (PEM), or none any more, before anybody runs a command in it.
/// `program_id` names the guest program's folder.
pub fn settle(
    paths: &SandboxPaths,
    msb: &Msb,
    name: &SandboxName,
    program_id: &str,
    certificate: Option<&str>,
) -> Result<(), RuntimeError> {
    // A guest that was never told of one is asked nothing: a call takes a while.
    if certificate.is_none() && !paths.authority().exists() {
        return Ok(());
    }
    let line = command::trust(name, program_id);
    let said = msb.feed(&line, &mut certificate.unwrap_or_default().as_bytes(), msb.patience.work)?;
    if said.code != Some(0) {
        let why = failed(&line, &said);
        let context = format!("the guest cannot be told which certificate to trust: {why}");
        return Err(RuntimeError::Other { context, source: None });
    }
    match certificate {
        Some(_) => Ok(()),
        // With secrets again, it is another one.
        None => match fs::remove_file(paths.authority()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        },
    }
}
