//! Asking npm, which knows where packages are.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_agents::{NPM_DEADLINE, newest_argv, newest_of, profile};
use sandbox_model::{AgentName, ExecSpec, SandboxName};
use sandbox_runtime::Runtime;
use sandbox_state::{Layout, Lock, LockMode, Stamp, VersionsRecord, read_record, write_record};

use crate::Result;
use crate::command::script;

/// The guest's own npm runs when the agent has had time to draw its first picture, and behind it.
const IN_GUEST: &str = r#"sleep 60; exec timeout 120 nice -n 19 "$@""#;
const IN_GUEST_WITHIN: Duration = Duration::from_mins(5);

/// Asks for the newest version and records the answer, with the time: npm is asked again only after the
/// interval of the settings, whatever came of it. Blocks for up to three minutes.
///
/// `sandbox` runs; its npm is asked where the host has none.
pub fn ask_newest(
    layout: &Layout,
    runtime: &dyn Runtime,
    sandbox: &SandboxName,
    agent: AgentName,
) -> Result<()> {
    record(layout, agent, None)?;
    let version = if which::which("npm").is_ok() {
        newest(agent, NPM_DEADLINE)
    } else {
        in_guest(runtime, sandbox, agent)
    };
    match version {
        Some(version) => record(layout, agent, Some(version)),
        None => Ok(()),
    }
}

fn record(layout: &Layout, agent: AgentName, version: Option<String>) -> Result<()> {
    let path = layout.agent_versions();
    let _lock = Lock::take(&layout.agent_versions_lock(), LockMode::Exclusive, "versions", |_| {})?;
    // One that cannot be read holds nothing that npm would not say again.
    let mut record = read_record::<VersionsRecord>(&path).ok().flatten().unwrap_or_default();
    let known = record.agents.entry(agent).or_default();
    known.asked = Stamp::now();
    if version.is_some() {
        known.version = version;
    }
    Ok(write_record(&path, &record)?)
}

/// What the host's npm says within `deadline`; `None` without one, or without an answer.
///
/// It runs in the folder of the file system's root: a project may have settings for npm of its own, and
/// those are not the user's.
pub fn newest(agent: AgentName, deadline: Duration) -> Option<String> {
    let [npm, words @ ..] = newest_argv(&profile(agent).ok()?.install);
    let program = which::which_in(npm, Some(outside(&std::env::var_os("PATH")?)), "/").ok()?;
    let mut command = Command::new(program);
    command.args(words).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let answer = wait(&mut child, deadline);
    if answer.is_none() {
        // What npm started goes with it.
        if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = child.wait();
    }
    newest_of(&answer?)
}

/// The folders of a `PATH` that no project has a say in: a sandbox writes into the checkout, where the command
/// was typed, and into its packages.
fn outside(path: &OsStr) -> OsString {
    let here = std::env::current_dir().unwrap_or_default();
    let foreign = |folder: &PathBuf| {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        folder.is_absolute()
            && !(real.starts_with(&here) && here.parent().is_some())
            && !real.components().any(|part| part.as_os_str() == "node_modules")
    };
    std::env::join_paths(std::env::split_paths(path).filter(foreign)).unwrap_or_default()
}

/// The output of a child that ends well in time. A version fits into a pipe many times over; more is none.
fn wait(child: &mut Child, deadline: Duration) -> Option<String> {
    let begin = Instant::now();
    while begin.elapsed() < deadline {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => {
                let mut answer = Vec::new();
                child.stdout.take()?.take(1 << 16).read_to_end(&mut answer).ok()?;
                return String::from_utf8(answer).ok();
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            _ => return None,
        }
    }
    None
}

fn in_guest(runtime: &dyn Runtime, sandbox: &SandboxName, agent: AgentName) -> Option<String> {
    let words = newest_argv(&profile(agent).ok()?.install).map(Into::into).to_vec();
    let mut spec = ExecSpec::new(script(IN_GUEST, words));
    // The checkout may have settings for npm as well.
    spec.cwd = Some("/".into());
    let session = runtime.exec(sandbox, &spec).ok()?;
    let collected = session.collect_within("npm", IN_GUEST_WITHIN).ok()?;
    if !collected.status.success() {
        return None;
    }
    newest_of(&String::from_utf8_lossy(&collected.stdout))
}
