//! What a machine's network bridge needs to put in secrets.

use sandbox_model::{SandboxSpec, SecretValues};
use sandbox_network::{Authority, BridgeSecrets, needs_card};
use sandbox_runtime::{RuntimeError, check_secrets};
use sandbox_state::{read_record, write_record};

use crate::error::from_state;
use crate::files::MachineFiles;

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
    let needed = spec.secrets.iter().map(|secret| &secret.name);
    let values = needed.filter_map(|name| Some((name.clone(), values.get(name)?.clone()))).collect();
    Ok(Some(BridgeSecrets { secrets: spec.secrets.clone(), values, authority }))
}
