//! Secrets whose value is another by now reach a running sandbox without a start, where the runtime can.

use sandbox_model::{SandboxSpec, SecretSpec, Status};
use sandbox_runtime::{RuntimeError, SandboxInfo};

use crate::{Context, Result, UpRequest};

/// Gives what runs the wanted values, as far as nothing but values differs. Connections that are open keep theirs.
pub fn settle(
    context: &Context<'_>,
    request: &UpRequest,
    info: &mut SandboxInfo,
    wanted: &SandboxSpec,
) -> Result<()> {
    let name = &info.spec.name;
    let Some(changed) = changed(&info.spec.secrets, &wanted.secrets) else { return Ok(()) };
    if info.status != Status::Running || !context.runtime.capabilities_for(name)?.live_secrets {
        return Ok(());
    }
    match context.runtime.change_secret_values(name, &wanted.secrets, &request.secret_values) {
        // It differs, then, and is dealt with as such.
        Err(RuntimeError::Unsupported(_)) => return Ok(()),
        other => other?,
    }
    info.spec.secrets.clone_from(&wanted.secrets);
    context.reporter.info(&format!("another value from now on, without a restart: {}", changed.join(", ")));
    Ok(())
}

/// [`settle`], where there is a sandbox at all.
pub fn settle_there(
    context: &Context<'_>,
    request: &UpRequest,
    info: Option<&mut SandboxInfo>,
    wanted: &SandboxSpec,
) -> Result<()> {
    info.map_or(Ok(()), |info| settle(context, request, info, wanted))
}

/// The names of those whose values differ; `None` where that is nothing, or not all.
fn changed<'a>(have: &[SecretSpec], want: &'a [SecretSpec]) -> Option<Vec<&'a str>> {
    let reach = |secret: &SecretSpec| SecretSpec { fingerprint: String::new(), ..secret.clone() };
    if !have.iter().map(reach).eq(want.iter().map(reach)) {
        return None;
    }
    let pairs = have.iter().zip(want);
    let changed: Vec<&str> =
        pairs.filter(|(have, want)| have != want).map(|(_, want)| want.name.as_str()).collect();
    (!changed.is_empty()).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_change_live() {
        let secret = |name: &str, host: &str, fingerprint: &str| SecretSpec {
            name: name.into(),
            hosts: vec![host.parse().unwrap()],
            headers: vec!["authorization".into()],
            query: false,
            body: false,
            fingerprint: fingerprint.into(),
        };
        let have = [secret("A", "a.example", "1"), secret("B", "b.example", "1")];
        assert_eq!(changed(&have, &have), None);
        assert_eq!(changed(&have, &[have[0].clone(), secret("B", "b.example", "2")]), Some(vec!["B"]));
        assert_eq!(changed(&have, &[secret("A", "a.example", "2"), secret("B", "c.example", "1")]), None);
        assert_eq!(changed(&have, &[secret("A", "a.example", "2")]), None);
        assert_eq!(changed(&[], &[]), None);
    }
}
