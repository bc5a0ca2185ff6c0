//! Starting a link process, which nobody waits for.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fs_err as fs;
use sandbox_model::PortForward;
use sandbox_runtime::RuntimeError;
use sandbox_state::{is_locked, read_record};

use super::{LinkConfig, client, detach};
use crate::call::Msb;
use crate::files::{Files, SandboxPaths};
use crate::machine::{self, Seen};
use crate::record::SandboxRecord;

/// The variables that it gets of ours, and `msb` from it. It lives for as long as the sandbox, and others may hold
/// what a command was given for a moment: secrets.
const VARIABLES: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR", "LANG", "LC_ALL", "RUST_BACKTRACE"];
/// A link that nobody used for longer is closed, however long the sandbox may be idle.
const RESTS_AFTER: Duration = Duration::from_mins(10);
/// A process begun for a machine that runs; a command waits for it.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(5);
const NO_PORTS: &str = "without the program that serves them a sandbox has no ports";

fn config(files: &Files, msb: &Msb, record: &SandboxRecord, guest_program: &str) -> LinkConfig {
    LinkConfig {
        home: files.home.dir.clone(),
        name: record.spec.name.clone(),
        msb: msb.program().into(),
        guest_program: guest_program.into(),
        patience: msb.patience.work,
        rests_after: (record.spec.idle_timeout / 2).clamp(Duration::from_secs(1), RESTS_AFTER),
    }
}

/// For a machine that is about to boot: it waits for the change lock, which is the caller's, and serves who comes
/// meanwhile once that is free. Without one, commands have links of their own. It has the ports of the record, or they
/// cannot be had: then it is not there.
pub fn begin(
    program: Option<&Path>,
    files: &Files,
    msb: &Msb,
    record: &SandboxRecord,
    guest_program: &str,
) -> Result<(), RuntimeError> {
    let paths = files.sandbox(&record.spec.name);
    let ports = &record.spec.ports;
    let Some(program) = program else {
        return if ports.is_empty() { Ok(()) } else { Err(RuntimeError::Unsupported(NO_PORTS)) };
    };
    // The one of the boot before, which is about to leave: it is not to be asked.
    if is_locked(&paths.link_lock()).unwrap_or(false) {
        client::end(&paths);
    }
    let begun = spawn(program, files, &config(files, msb, record, guest_program));
    if ports.is_empty() {
        if let Err(error) = begun {
            tracing::warn!("no link process: {error}");
        }
        return Ok(());
    }
    begun?;
    // Before the boot: whoever asked for one must not find out later that it leads elsewhere.
    client::change_ports(&paths, ports, &[], msb.patience.work).inspect_err(|_| client::end(&paths))
}

/// [`begin`] for a machine that runs, where there is none; whether there is one then. `notice` hears of ports that cannot
/// be had any more.
pub fn begin_missing(
    program: Option<&Path>,
    files: &Files,
    msb: &Msb,
    record: &SandboxRecord,
    guest_program: &str,
    notice: &dyn Fn(&str),
) -> bool {
    let Some(program) = program else { return false };
    let name = &record.spec.name;
    let paths = files.sandbox(name);
    if is_locked(&paths.link_lock()).unwrap_or(true) {
        return true;
    }
    // One whose machine cannot be seen would never learn of its end.
    if machine::look(&files.home.dir, &paths, name) != Seen::Up {
        return false;
    }
    if let Err(error) = spawn(program, files, &config(files, msb, record, guest_program)) {
        tracing::warn!("no link process: {error}");
        return false;
    }
    let ports = &record.spec.ports;
    let change = |ports: &[PortForward]| client::change_ports(&paths, ports, &[], COMES_BACK_WITHIN);
    if !ports.is_empty() && !by_msb(&paths) && change(ports).is_err() {
        // All or none, and as many as there can be.
        for problem in ports.iter().filter_map(|port| change(&[*port]).err()) {
            notice(&format!("{problem}; the sandbox goes on without it"));
        }
    }
    true
}

/// Whether an earlier version had `msb` publish the ports of a sandbox that runs, which has no word to change that.
pub fn by_msb(paths: &SandboxPaths) -> bool {
    !kept_by_msb(paths).is_empty()
}

/// What says so, for as long as it runs.
pub fn kept_by_msb(paths: &SandboxPaths) -> Vec<String> {
    let applied: Option<Vec<String>> = read_record(&paths.applied()).unwrap_or_default();
    applied.unwrap_or_default().into_iter().filter(|word| word == "-p").collect()
}

fn spawn(program: &Path, files: &Files, config: &LinkConfig) -> Result<(), RuntimeError> {
    let paths = files.sandbox(&config.name);
    fs::OpenOptions::new().create(true).append(true).open(paths.link_lock())?;
    let log = fs::OpenOptions::new().create(true).append(true).open(paths.link_log())?;
    // One boot's, and one that lives goes on at the beginning.
    log.set_len(0)?;
    let mut command = Command::new(program);
    detach::detach(&mut command);
    let mut child = command
        .arg("internal")
        .arg("link")
        .arg(config.name.as_str())
        .env_clear()
        .envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .current_dir(&files.home.dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log.into_parts().0)
        .spawn()
        .map_err(|error| RuntimeError::MissingProgram {
            program: program.display().to_string(),
            problem: error.to_string(),
        })?;
    if let Some(stdin) = child.stdin.take() {
        serde_json::to_writer(stdin, config).map_err(std::io::Error::from)?;
    }
    // Reaped whenever it ends, for as long as this process lives.
    std::thread::spawn(move || child.wait());
    Ok(())
}
