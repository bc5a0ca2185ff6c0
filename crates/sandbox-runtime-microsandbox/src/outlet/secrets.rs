//! What an outlet needs to put in secrets.

use sandbox_model::{SandboxSpec, SecretSpec, SecretValues};
use sandbox_network::{Authority, BridgeSecrets};
use sandbox_runtime::{RuntimeError, check_secrets};
use sandbox_state::{read_record, write_record};

use super::word;
use crate::error::from_state;
use crate::files::SandboxPaths;
use crate::record::SandboxRecord;

/// The values of the spec's secrets, with the sandbox's own authority: made once, so that what the guest remembers of it
/// stays true.
pub fn hand_over(
    paths: &SandboxPaths,
    spec: &SandboxSpec,
    values: &SecretValues,
) -> Result<Option<BridgeSecrets>, RuntimeError> {
    if spec.secrets.is_empty() {
        return Ok(None);
    }
    let known: Option<Authority> = read_record(&paths.authority()).map_err(from_state)?;
    let authority = if let Some(authority) = known {
        authority
    } else {
        let authority = Authority::generate(spec.name.as_str())?;
        write_record(&paths.authority(), &authority).map_err(from_state)?;
        authority
    };
    let secrets = spec.secrets.clone();
    Ok(Some(BridgeSecrets { values: needed(&secrets, values), secrets, authority }))
}

fn needed(secrets: &[SecretSpec], values: &SecretValues) -> SecretValues {
    let names = secrets.iter().map(|secret| &secret.name);
    names.filter_map(|name| Some((name.clone(), values.get(name)?.clone()))).collect()
}

/// Hands other values to the outlet of a running sandbox, and notes whose they are. The caller holds the change lock.
pub fn change(
    paths: &SandboxPaths,
    record: SandboxRecord,
    secrets: &[SecretSpec],
    values: &SecretValues,
) -> Result<(), RuntimeError> {
    let record = record.with(|spec| spec.secrets = secrets.to_vec());
    check_secrets(&record.spec, values)?;
    if !word::change_values(&paths.outlet_socket(), &needed(secrets, values))? {
        // One that an earlier version started has none, and neither has one without a network card.
        return Err(RuntimeError::Unsupported("the secrets of this sandbox change at its next start"));
    }
    record.write(paths)
}
