//! Which version's guest program has the sessions of a boot: one that speaks another protocol has a guest program
//! of its own in the same guest, which knows nothing of them.

use sandbox_runtime::RuntimeError;
use sandbox_state::{read_record, write_record};
use sandbox_wire::GUEST_PROTOCOL;
use serde::{Deserialize, Serialize};

use crate::error::from_state;
use crate::files::SandboxPaths;

/// `sessions.json`, from the first session of a boot on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    boot: String,
    guest_protocol: u32,
    version: String,
}

impl Holder {
    fn ours(boot: String) -> Self {
        Self { boot, guest_protocol: GUEST_PROTOCOL, version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// Whose they are, where they are not ours. What was noted of another boot ended with it.
fn other(noted: Option<Holder>, ours: &Holder) -> Option<RuntimeError> {
    noted
        .filter(|noted| noted.boot == ours.boot && noted.guest_protocol != ours.guest_protocol)
        .map(|noted| RuntimeError::OtherVersion { running: noted.version })
}

/// Fails where another version has the sessions of this boot. `None` is a sandbox on its way to rest.
pub fn check(paths: &SandboxPaths, boot: Option<String>) -> Result<(), RuntimeError> {
    let Some(ours) = boot.map(Holder::ours) else { return Ok(()) };
    let noted = read_record(&paths.sessions()).map_err(from_state)?;
    other(noted, &ours).map_or(Ok(()), Err)
}

/// [`check`] before a session begins, and notes that it is ours.
pub fn claim(paths: &SandboxPaths, boot: Option<String>) -> Result<(), RuntimeError> {
    let Some(ours) = boot.map(Holder::ours) else { return Ok(()) };
    let noted: Option<Holder> = read_record(&paths.sessions()).map_err(from_state)?;
    if noted.as_ref().is_some_and(|noted| noted.boot == ours.boot && noted.guest_protocol == GUEST_PROTOCOL) {
        return Ok(());
    }
    other(noted, &ours).map_or(Ok(()), Err)?;
    write_record(&paths.sessions(), &ours).map_err(from_state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_another_protocol_are_refused_until_their_boot_ends() {
        let dir = tempfile::tempdir().unwrap();
        let paths = SandboxPaths::at(dir.path());
        let boot = |id: &str| Some(id.to_string());
        check(&paths, boot("one")).unwrap();
        claim(&paths, boot("one")).unwrap();
        check(&paths, boot("one")).unwrap();
        claim(&paths, boot("one")).unwrap();

        let older = Holder {
            guest_protocol: GUEST_PROTOCOL - 1,
            version: "0.0.9".into(),
            ..Holder::ours("one".into())
        };
        write_record(&paths.sessions(), &older).unwrap();
        for outcome in [check(&paths, boot("one")), claim(&paths, boot("one"))] {
            match outcome {
                Err(RuntimeError::OtherVersion { running }) => assert_eq!(running, "0.0.9"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read_record(&paths.sessions()).unwrap(), Some(older), "it is still theirs");
        check(&paths, boot("two")).unwrap();
        claim(&paths, boot("two")).unwrap();
        check(&paths, None).unwrap();
        assert_eq!(read_record(&paths.sessions()).unwrap(), Some(Holder::ours("two".into())));
    }
}
