//! A start, from the record to a machine that takes commands.

use sandbox_model::{ByteSize, Resources, SandboxName, SandboxSpec};
use sandbox_runtime::RuntimeError;
use sandbox_state::{Lock, LockMode, read_record, write_record};

use crate::call::{Msb, failed as failed_call, problem};
use crate::command::{self, Ceiling};
use crate::error::from_state;
use crate::files::{Files, SandboxPaths};
use crate::machine;
use crate::options::MsbOptions;
use crate::outlet::link::Outlet;
use crate::outlet::rules::by_the_resolver;
use crate::outlet::trust;
use crate::power;
use crate::record::Life;
use crate::routes::Routes;

/// How much of a log goes into an error.
const LOG_TAIL: usize = 2_000;

/// What the host has: a machine may grow to that, but its kernel has to know before it starts.
pub fn ceiling(spec: &SandboxSpec, most_cpus: Option<u32>) -> Ceiling {
    let own = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = most_cpus.unwrap_or_else(|| u32::try_from(own()).unwrap_or(1));
    let host = rustix::system::sysinfo();
    let total = host.totalram.saturating_mul(host.mem_unit.into());
    // Memory that may come costs the guest a little at once, so a small machine gets a low ceiling.
    let memory = total.min(spec.resources.memory.bytes().saturating_mul(4));
    Ceiling { cpus, memory: ByteSize::from_bytes(memory) }
}

/// The command line that makes `msb` know the sandbox as its record says.
pub fn create_line(
    files: &Files,
    paths: &SandboxPaths,
    options: &MsbOptions,
    spec: &SandboxSpec,
    way_out: &[String],
) -> Result<Vec<String>, RuntimeError> {
    let rules = (options.network_rules)(&spec.network)?;
    let rules = rules.map(|rules| by_the_resolver(&rules, &spec.secrets));
    command::create(
        spec,
        &paths.root_disk(),
        &files.guest_programs(),
        rules.as_deref(),
        way_out,
        ceiling(spec, options.most_cpus),
    )
}

/// Whether a machine that runs was booted with so high a ceiling: what `msb` would refuse, every command would ask it
/// for anew. Where nobody knows, `msb` says.
pub fn may_grow_to(paths: &SandboxPaths, resources: Resources) -> bool {
    let applied: Option<Vec<String>> = read_record(&paths.applied()).unwrap_or_default();
    let applied = applied.unwrap_or_default();
    let most = |option: &str| {
        let word = applied.windows(2).find(|pair| pair[0] == option)?[1].as_str();
        word.strip_suffix('M').unwrap_or(word).parse::<u64>().ok()
    };
    most("--max-cpus").is_none_or(|most| u64::from(resources.cpus) <= most)
        && most("--max-memory").is_none_or(|most| resources.memory.bytes() <= most << 20)
}

/// What there is of a sandbox beside its record.
#[derive(Debug)]
pub struct Given<'a> {
    /// Whether `msb` has it already. One that `msb` has as the record says only starts; any other is made anew around the
    /// same disks.
    pub known: bool,
    /// Waits for the machine.
    pub outlet: Option<Outlet>,
    /// Names the guest program's folder.
    pub program_id: &'a str,
}

/// Boots a sandbox at rest. The change lock is the caller's.
pub fn boot(
    files: &Files,
    paths: &SandboxPaths,
    options: &MsbOptions,
    msb: &Msb,
    spec: &SandboxSpec,
    given: Given<'_>,
) -> Result<(), RuntimeError> {
    let Given { known, outlet, program_id } = given;
    let way_out = outlet.as_ref().map(Outlet::words).unwrap_or_default();
    let create = create_line(files, paths, options, spec, &way_out)?;
    let reaches = (options.network_rules)(&spec.network)?.is_some();
    let missing = reaches.then(|| Routes::of_this_computer().missing()).flatten();
    if let Some(missing) = missing {
        (options.notice)(missing);
    }
    // It follows links.
    for source in [&spec.workspace.source].into_iter().chain(spec.mounts.iter().map(|mount| &mount.source)) {
        sandbox_state::open_resolved(source)?;
    }
    let _starting =
        Lock::take(&paths.starting_lock(), LockMode::Exclusive, "start", |_| {}).map_err(from_state)?;
    machine::forget(paths)?;
    Life::Starting.write(paths)?;
    let applied: Option<Vec<String>> = read_record(&paths.applied()).unwrap_or_default();
    let line = if known && applied.as_ref() == Some(&create) {
        command::start(&spec.name)
    } else {
        // Until the new one is there, nobody knows which of the two msb has.
        write_record(&paths.applied(), &Vec::<String>::new()).map_err(from_state)?;
        create.clone()
    };
    let up = if outlet.is_some() { Life::Served } else { Life::Booted };
    let outcome = match msb.try_boot(&line, msb.patience.work) {
        Ok(said) if said.code == Some(0) => Ok(()),
        Ok(said) => Err(match problem(&said.stderr) {
            // It says nothing, so at least how it ended.
            text if text.is_empty() => failed_call(&line, &said).to_string(),
            text => text,
        }),
        Err(error) => Err(error.to_string()),
    };
    let outcome = outcome.and_then(|()| {
        write_record(&paths.applied(), &create).map_err(|error| error.to_string())?;
        settle(files, paths, msb, spec, outlet, program_id).map_err(|error| error.to_string())
    });
    match outcome {
        Ok(()) => up.write(paths),
        Err(problem) => {
            // Half a machine must not be taken for one that runs.
            let _ = power::off(files, msb, &spec.name);
            Life::Failed { problem: problem.clone() }.write(paths)?;
            Err(failed(&spec.name, problem, paths))
        }
    }
}

/// What a machine that is up needs before anybody uses it.
fn settle(
    files: &Files,
    paths: &SandboxPaths,
    msb: &Msb,
    spec: &SandboxSpec,
    outlet: Option<Outlet>,
    program_id: &str,
) -> Result<(), RuntimeError> {
    machine::note(&files.home.dir, paths, &spec.name)?;
    let certificate = outlet.as_ref().and_then(|outlet| outlet.certificate.clone());
    if let Some(outlet) = outlet {
        outlet.attend(files, paths, spec)?;
    }
    trust::settle(paths, msb, &spec.name, program_id, certificate.as_deref())
}

fn failed(name: &SandboxName, problem: String, paths: &SandboxPaths) -> RuntimeError {
    let tails = [paths.console_log(), paths.machine_log()].map(|path| {
        let text = fs_err::read(path).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL)..]).trim().to_string()
    });
    let log = tails.into_iter().filter(|tail| !tail.is_empty()).collect::<Vec<_>>().join("\n");
    RuntimeError::BootFailed { name: name.clone(), problem, log }
}
