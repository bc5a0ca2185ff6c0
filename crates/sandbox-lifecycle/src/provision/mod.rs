//! The agent's configuration, from the host's folders into the guest's home.

mod bundle;
mod host_files;
mod merge;

use sandbox_agents::profile;
use sandbox_model::ExecSpec;
use sandbox_runtime::ExecEvent;
use sandbox_state::{ProjectState, read_record, write_record};

use crate::locks::boot_lock;
use crate::{Context, LifecycleError, Result, Up, UpRequest};

use bundle::Bundle;
use host_files::{Links, read_tree};

/// Kind of the fingerprint of what was copied last.
const FINGERPRINT: &str = "provision";

/// Runs as `dev`: clears the files that would hide the merged one, then unpacks over what is there.
const UNPACK: &str = r#"cd "$HOME" && rm -f -- "$@" && exec tar -x -f -"#;

/// What [`provision`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provisioned {
    /// There is nothing to copy.
    Nothing,
    /// What is in the sandbox is what the host has.
    Unchanged,
    /// This many files were written. The agent's server reads them when it next starts.
    Written(usize),
}

/// Copies the agent's configuration from the user's and the project's folders into the guest's home, in one
/// transfer, when it changed.
///
/// Snippets (see [`sandbox_agents::ConfigFiles`]) are merged into one document, the project's over the
/// user's; all other files are copied as they are. Where nobody else is attached, a server that runs with
/// the former configuration is forgotten, so that [`crate::ensure_daemon`] starts it anew.
pub fn provision(context: &Context<'_>, request: &UpRequest, up: &Up) -> Result<Provisioned> {
    let config = &profile(request.agent).config;
    let user = read_tree(&context.layout.config, &[config.host_dir], Links::Follow)?;
    let project = project_files(request, config.host_dir)?;
    for skipped in user.skipped.iter().chain(&project.skipped) {
        context.reporter.warning(&format!("not copied into the sandbox: {skipped}"));
    }
    let bundle = Bundle::new(config, user.files, project.files)?;
    if bundle.is_empty() {
        return Ok(Provisioned::Nothing);
    }
    let target = request.target();
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let read = || Ok::<_, LifecycleError>(read_record::<ProjectState>(&files.state())?.unwrap_or_default());
    let wanted = |state: &ProjectState| bundle.fingerprint(state.home_volume.as_ref());
    let current = |state: &ProjectState| state.fingerprints.get(FINGERPRINT) == Some(&wanted(state));
    if current(&read()?) {
        return Ok(Provisioned::Unchanged);
    }
    let _lock = boot_lock(context, &target, request.verb)?;
    let mut state = read()?;
    if current(&state) {
        return Ok(Provisioned::Unchanged);
    }
    let step = context.reporter.begin("copying the agent's configuration");
    unpack(context, up, &bundle)
        .map_err(|problem| LifecycleError::Provision { agent: request.agent, problem })?;
    let fingerprint = wanted(&state);
    state.fingerprints.insert(FINGERPRINT.into(), fingerprint);
    write_record(&files.state(), &state)?;
    step.finish(Some(&format!("{} files", bundle.len())));
    if files.daemon().exists() {
        if up.lease.other_clients() == 0 {
            fs_err::remove_file(files.daemon())?;
        } else {
            context
                .reporter
                .info("others use the agent, so it reads the new configuration when it next starts");
        }
    }
    Ok(Provisioned::Written(bundle.len()))
}

/// The project's files, without following links: the agent can write them, and a link would make it read
/// the host.
fn project_files(request: &UpRequest, host_dir: &str) -> Result<host_files::Tree> {
    let dir = &request.project.config_dir;
    match (dir.parent(), dir.file_name().and_then(|name| name.to_str())) {
        (Some(root), Some(name)) => read_tree(root, &[name, host_dir], Links::Refuse),
        _ => Ok(host_files::Tree::default()),
    }
}

fn unpack(context: &Context<'_>, up: &Up, bundle: &Bundle) -> Result<(), String> {
    let mut words = vec!["sh", "-c", UNPACK, "agents-sandbox"];
    words.extend(bundle.hidden());
    let archive = bundle.archive().map_err(|error| error.to_string())?;
    let session = context.runtime.exec(&up.name, &ExecSpec::new(words)).map_err(|error| error.to_string())?;
    let (mut input, mut output) = (session.input, session.output);
    std::thread::scope(|scope| {
        let feeder = scope.spawn(move || {
            archive.chunks(1 << 16).try_for_each(|chunk| input.write(chunk)).and_then(|()| input.close())
        });
        let mut said = Vec::new();
        let status = loop {
            match output.next().map_err(|error| error.to_string())? {
                ExecEvent::Stdout(_) => {}
                ExecEvent::Stderr(bytes) => said.extend(bytes),
                ExecEvent::Exited(status) => break status,
            }
        };
        // A command that ended early took no more input; its own words say more than the broken pipe.
        let fed = feeder.join().unwrap_or(Ok(()));
        if status.success() {
            return fed.map_err(|error| error.to_string());
        }
        Err(format!("exit code {}: {}", status.shell_code(), String::from_utf8_lossy(&said).trim()))
    })
}
