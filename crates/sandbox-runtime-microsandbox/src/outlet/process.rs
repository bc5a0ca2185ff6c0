//! The process itself: from a configuration on its standard input to the end of a machine.

use std::io::{BufReader, Read, Write};
use std::path::Path;

use fs_err as fs;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, pidfd_open, set_dumpable_behavior, setsid};
use sandbox_network::{BridgeError, OutletAddresses, OutletConfig, outlet};
use sandbox_state::{Lock, LockMode, StateError, bind_socket};
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;
use serde_json::de::IoRead;

use super::Booted;
use super::word::listen;
use crate::files::SandboxPaths;
use crate::machine::wait_for_end;

/// Why an outlet does not serve.
#[derive(Debug, thiserror::Error)]
pub enum OutletProcessError {
    #[error("configuration on stdin: {0}")]
    Configuration(#[source] serde_json::Error),
    #[error("others cannot be kept from looking into the process: {0}")]
    Guard(#[source] std::io::Error),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the record of what a sandbox reaches cannot be written: {0}")]
    Events(#[source] std::io::Error),
    #[error(transparent)]
    Serve(#[from] BridgeError),
}

/// Serves the sandbox whose folder is `dir` until its machine ends.
///
/// Standard input has a [`OutletConfig`], and, when the boot is over, which process it ends with: `{"machine": PID}`, or
/// `{"machine": null}` where none came up. An input that ends before is a starter that was killed. Standard output has where
/// it listens, then the machine's line again once it watches that. The process has no other threads yet.
pub fn serve(dir: &Path) -> Result<(), OutletProcessError> {
    // It fails for the leader of a process group, which has no terminal to leave.
    let _ = setsid();
    let _ = std::env::set_current_dir("/");
    let paths = SandboxPaths::at(dir);
    let mut told = Deserializer::from_reader(BufReader::new(std::io::stdin()));
    let config = configuration(&mut told)?;
    // Held until this process ends. The one before may be on its way out.
    let _lock = Lock::take(&paths.outlet_lock(), LockMode::Exclusive, "network", |_| {})?;
    // Opened here: later it has no right to files of ours.
    let (listening, values) = listen(bind_socket(&paths.outlet_socket())?);
    let events = fs::OpenOptions::new().create(true).append(true).open(paths.network_log());
    let events = events.map_err(OutletProcessError::Events)?.into_parts().0;
    let ready = |addresses: &OutletAddresses| {
        // A thread that begins here has the rights that are left.
        let heard = std::thread::Builder::new().name("words".into()).spawn(|| listening.run());
        if heard.is_ok() {
            say(addresses);
        }
    };
    outlet(&config, Some(events), values, ready, move || until_over(told))?;
    Ok(())
}

/// It has values of secrets: nobody may look into this process from before they come.
fn configuration<R: Read>(told: &mut Deserializer<IoRead<R>>) -> Result<OutletConfig, OutletProcessError> {
    let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    hidden.map_err(|error| OutletProcessError::Guard(error.into()))?;
    OutletConfig::deserialize(told).map_err(OutletProcessError::Configuration)
}

/// Whoever waits for it may be gone; then the input ends as well.
fn say(line: &impl Serialize) {
    let mut stdout = std::io::stdout().lock();
    let _ = serde_json::to_writer(&mut stdout, line);
    let _ = writeln!(stdout).and_then(|()| stdout.flush());
}

fn until_over<R: Read>(mut told: Deserializer<IoRead<R>>) {
    let Ok(booted) = Booted::deserialize(&mut told) else { return };
    let pid = booted.machine.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    let Some(Ok(machine)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
    // The number may have become another's: whoever named it looks once more, now that it cannot any more.
    say(&booted);
    let _ = wait_for_end(&machine);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rustix::process::dumpable_behavior;

    use super::*;

    /// Notes at its first read whether others may look into this process.
    struct Probe<'a>(&'a mut Option<DumpableBehavior>);

    impl Read for Probe<'_> {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            self.0.get_or_insert(dumpable_behavior()?);
            Ok(0)
        }
    }

    #[test]
    fn nobody_can_look_into_it_when_its_secrets_come() {
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
        let mut seen = None;
        let outcome = configuration(&mut Deserializer::from_reader(Probe(&mut seen)));
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
        assert!(matches!(outcome, Err(OutletProcessError::Configuration(_))));
        assert_eq!(seen, Some(DumpableBehavior::NotDumpable));
    }

    #[test]
    fn it_is_over_without_a_machine_or_with_its_end() {
        let over = |text: &str| until_over(Deserializer::from_reader(std::io::Cursor::new(text.to_string())));
        for nothing in ["", "{\"machine\"", "{\"machine\": null}", "{\"machine\": 0}"] {
            over(nothing);
        }
        let mut machine = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let told = format!("{{\"machine\": {}}}", machine.id());
        let (ended, is_over) = channel();
        std::thread::spawn(move || {
            until_over(Deserializer::from_reader(std::io::Cursor::new(told)));
            ended.send(())
        });
        assert!(is_over.recv_timeout(Duration::from_millis(200)).is_err(), "the machine lives");
        drop(machine.stdin.take());
        is_over.recv_timeout(Duration::from_secs(20)).unwrap();
        machine.wait().unwrap();
    }
}
