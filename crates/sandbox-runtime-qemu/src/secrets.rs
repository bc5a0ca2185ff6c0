//! What a machine's network bridge needs to put in secrets.

use sandbox_model::{SandboxSpec, SecretSpec, SecretValues};
use sandbox_network::{Authority, BridgeSecrets, needs_card};
use sandbox_runtime::{RuntimeError, check_secrets};
use sandbox_state::{read_record, write_record};
use sandbox_wire::{MachineReply, MachineRequest};

use crate::client::{self, Asked};
use crate::error::from_state;
use crate::files::MachineFiles;
use crate::record::SandboxRecord;

/// The values of the spec's secrets, with the sandbox's own authority: made once, so that a guest which slept
/// finds the one that it trusts.
pub fn hand_over(
    files: &MachineFiles,
    spec: &SandboxSpec,
    values: &SecretValues,
) -> Result<Option<BridgeSecrets>, RuntimeError> {
    check_secrets(spec, values)?;
    if spec.secrets.is_empty() || !needs_card(&spec.network) {
        return Ok(None);
    }
    let known: Option<Authority> = read_record(&files.authority()).map_err(from_state)?;
    let authority = if let Some(authority) = known {
        authority
    } else {
        let authority = Authority::generate(spec.name.as_str())?;
        write_record(&files.authority(), &authority).map_err(from_state)?;
        authority
    };
    Ok(Some(BridgeSecrets {
        secrets: spec.secrets.clone(),
        values: needed(&spec.secrets, values),
        authority,
    }))
}

fn needed(secrets: &[SecretSpec], values: &SecretValues) -> SecretValues {
    let names = secrets.iter().map(|secret| &secret.name);
    names.filter_map(|name| Some((name.clone(), values.get(name)?.clone()))).collect()
}

/// Hands other values to a running machine, and notes whose they are. The caller holds the change lock.
pub fn change(
    files: &MachineFiles,
    record: &mut SandboxRecord,
    secrets: &[SecretSpec],
    values: &SecretValues,
) -> Result<(), RuntimeError> {
    let spec = SandboxSpec { secrets: secrets.to_vec(), ..record.spec.clone() };
    check_secrets(&spec, values)?;
    match client::ask(files, &MachineRequest::Secrets { values: needed(secrets, values) })? {
        Asked::Answer(_, MachineReply::Secrets) => {
            record.spec = spec;
            record.write(files)
        }
        // A machine of an earlier version does not know the question, and one without a network card has no bridge.
        Asked::Answer(..) | Asked::Gone => {
            Err(RuntimeError::Unsupported("the secrets of this sandbox change at its next start"))
        }
    }
}
