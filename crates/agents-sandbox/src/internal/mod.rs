//! The background processes: this same program under a hidden verb, dispatched before the command line is
//! read. Each takes its configuration as one JSON document on stdin, and sockets by descriptor number.

mod descriptor;
pub mod log;

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sandbox_keeper::KeeperConfig;
use sandbox_model::SecretValues;
use sandbox_network::BridgeConfig;
use sandbox_runtime_qemu::MachineFiles;
use sandbox_share::ShareConfig;
use sandbox_state::{SandboxFiles, crash};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wiring;
use descriptor::descriptor;

type Ended = Result<(), CommandError>;

/// Runs `internal VERB …`; `None` when the words are a person's.
pub fn run(words: &[OsString]) -> Option<Exit> {
    let [_, internal, verb, arguments @ ..] = words else { return None };
    if internal != "internal" {
        return None;
    }
    let ended = match verb.to_str().unwrap_or_default() {
        "machine" => machine(arguments),
        "link" => link(),
        "settle-memory" => settle_memory(arguments),
        "share" => share(arguments),
        "network" => network(arguments),
        "outlet" => outlet(arguments),
        "keeper" => keeper(),
        "newest-agent" => newest_agent(arguments),
        other => Err(CommandError::new(format!("there is no background process `{other}`"))),
    };
    Some(finish(ended))
}

fn machine(arguments: &[OsString]) -> Ended {
    let [dir] = arguments else { return Err(CommandError::new("machine takes its folder")) };
    log::machine();
    crash::arm_by_name();
    sandbox_runtime_qemu::machine::run(Path::new(dir)).map_err(told)
}

fn link() -> Ended {
    log::machine();
    sandbox_runtime_microsandbox::link_process::run().map_err(told)
}

/// What a machine that fell asleep leaves to do, with nobody waiting. Its memory is standard input.
fn settle_memory(arguments: &[OsString]) -> Ended {
    let [dir, id] = arguments else {
        return Err(CommandError::new("settle-memory takes the sandbox's folder and the sleep's id"));
    };
    log::machine();
    crash::arm_by_name();
    // Whoever shuts the computer down or logs out gives it the seconds that it needs.
    let told_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&told_to_end))
            .map_err(|error| CommandError::new(error.to_string()))?;
    }
    let memory = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| CommandError::new(error.to_string()))?;
    sandbox_runtime_qemu::settle_memory(
        &MachineFiles::new(Path::new(dir)),
        &File::from(memory),
        &id.to_string_lossy(),
        &told_to_end,
    )
    .map_err(told)
}

fn share(arguments: &[OsString]) -> Ended {
    log::share();
    let listener = UnixListener::from(descriptor(arguments, "--listener-fd")?);
    let config: ShareConfig = configuration()?;
    sandbox_share::serve(config, listener).map_err(told)
}

fn network(arguments: &[OsString]) -> Ended {
    let [socket, socket_fd, log @ ..] = arguments else {
        return Err(CommandError::new("network takes its descriptors"));
    };
    let guest = UnixStream::from(descriptor(&[socket.clone(), socket_fd.clone()], "--socket-fd")?);
    let events = File::from(descriptor(log, "--log-fd")?);
    // First what it is, then other values of secrets, until the machine has none any more.
    let mut orders = serde_json::Deserializer::from_reader(std::io::BufReader::new(std::io::stdin()));
    let config = BridgeConfig::deserialize(&mut orders)
        .map_err(|error| CommandError::new(format!("configuration on stdin: {error}")))?;
    let values = std::iter::from_fn(move || SecretValues::deserialize(&mut orders).ok());
    sandbox_network::bridge(&config, guest, Some(events), values, |network| {
        let mut stdout = std::io::stdout().lock();
        // Whoever waits for it may be gone; then the socket to the guest ends as well.
        let _ = serde_json::to_writer(&mut stdout, network);
        let _ = writeln!(stdout).and_then(|()| stdout.flush());
    })
    .map_err(told)
}

/// What serves the network of a sandbox on microsandbox.
fn outlet(arguments: &[OsString]) -> Ended {
    let [dir] = arguments else { return Err(CommandError::new("outlet takes the sandbox's folder")) };
    sandbox_runtime_microsandbox::serve_outlet(Path::new(dir)).map_err(told)
}

fn keeper() -> Ended {
    sandbox_keeper::leave_terminal();
    let config: KeeperConfig = configuration()?;
    let runtime = wiring::background_runtime(&config.sandbox)?;
    let files = SandboxFiles { dir: config.dir.clone() };
    let activity = sandbox_lifecycle::agent_activity(Arc::clone(&runtime), &config.sandbox, files);
    sandbox_keeper::run(config, runtime, activity, &mut std::io::stdout()).map_err(told)?;
    Ok(())
}

/// Asks npm for the newest version of an agent, with nobody waiting.
fn newest_agent(arguments: &[OsString]) -> Ended {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let [agent, sandbox] = words.as_slice() else {
        return Err(CommandError::new("newest-agent takes an agent and its sandbox"));
    };
    sandbox_keeper::leave_terminal();
    let agent = agent.parse().map_err(told)?;
    let sandbox = sandbox.parse().map_err(told)?;
    let runtime = wiring::background_runtime(&sandbox)?;
    sandbox_lifecycle::ask_newest(&App::layout()?, runtime.as_ref(), &sandbox, agent).map_err(told)
}

fn configuration<T: DeserializeOwned>() -> Result<T, CommandError> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(|error| CommandError::new(format!("configuration on stdin: {error}")))
}

fn told(error: impl Error + 'static) -> CommandError {
    CommandError::from_chain(&error)
}

/// Nobody reads this but the process that started this one, and the log it keeps.
fn finish(ended: Ended) -> Exit {
    let Err(error) = ended else { return Exit::SUCCESS };
    let words: Vec<String> = std::iter::once(error.message).chain(error.causes).collect();
    let _ = writeln!(std::io::stderr(), "error: {}", words.join(": "));
    Exit::FAILURE
}
