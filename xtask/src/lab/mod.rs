//! `cargo xtask lab`: real microsandbox, and QEMU with KVM, on any x86-64 machine.
//!
//! QEMU emulates AMD's nested virtualization, so a Debian guest of it has a true `/dev/kvm` and boots
//! unmodified microsandbox guests. What passes there is the real runtime; what cannot be learnt there is
//! absolute speed.
//!
//! ```text
//! target/lab/
//!   base-KEY/             Debian with a kernel: disk, kernel, initrd        cached by what goes into it
//!   image-KEY/            the sandboxes' image as a docker archive          cached by what goes into it
//!   agent-KEY/            the same with a real agent
//!   docker-KEY/           the same with Docker
//!   runtime/              the pinned runtime, installed as the program does it
//!   inputs-MACHINE.img    the second disk, while its machine runs: all of it, the programs, and the logs
//!   verdict.txt                      of the last run
//!   serial-MACHINE.log, logs/MACHINE/    of the last run
//! ```
//!
//! The short run has one machine, which keeps one core busy: the real program, what its sandboxes reach, the contract's
//! cases that share a sandbox, and those few others that ask most of the runtime. `cargo xtask lab all` has two machines side by
//! side: the contract's cases that boot sandboxes of their own, and everything else.

mod base;
mod cases;
mod image;
mod inputs;
mod machine;
mod steps;

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use base::Base;
use inputs::Parts;
use machine::Verdict;
use steps::{Outcome, text};

/// A machine and what it does: shell commands, each of which ends with one closing line.
struct Machine {
    name: &'static str,
    steps: Vec<String>,
}

const PROGRAM: &str = "/in/bin/program-cases";
const NETWORK: &str = "/in/bin/network-cases microsandbox";
/// The same cases on the other runtime, for which `cargo test` answers as well.
const NETWORK_ON_QEMU: &str = "/in/bin/network-cases qemu";
const SNAPSHOT: &str = "/in/bin/snapshot-cases";
const TROUBLE: &str = "/in/bin/trouble-cases";
const AGENT: &str = "/in/bin/agent-cases";
const DOCKER: &str = "/in/bin/docker-cases";
const OVERHEAD: &str = "/in/bin/bench-overhead";

/// Cases with sandboxes of their own that no other runtime can answer for: each of another part of `msb`.
const SHORT: [&str; 4] = [
    "a_dead_machine_is_crashed_and_starts_again",
    "modify_while_running",
    "start_by_two_at_once",
    "workspace_quota",
];

fn contract(kind: &str, cases: &[String]) -> String {
    format!("/in/bin/contract {kind} /in/place {}", cases.join(" "))
}

impl Machine {
    fn new(name: &'static str, steps: impl IntoIterator<Item = String>) -> Self {
        Self { name, steps: steps.into_iter().collect() }
    }

    /// What tells most in a few minutes of a core.
    fn short() -> Self {
        let own = SHORT.map(String::from);
        Self::new("short", [PROGRAM.into(), NETWORK.into(), contract("lent", &[]), contract("own", &own)])
    }

    /// The contract's cases that boot sandboxes of their own.
    fn own() -> Self {
        Self::new("own", [contract("own", &[])])
    }

    /// Those that share one, and the real program.
    fn lent() -> Self {
        let program = [PROGRAM, NETWORK, NETWORK_ON_QEMU, SNAPSHOT, TROUBLE].map(String::from);
        Self::new("lent", [contract("lent", &[])].into_iter().chain(program))
    }
}

/// The short run; or all but the agent's case, which fetches it, and Docker's, which take minutes; or one machine by
/// name; or the named cases of the contract.
fn machines(cases: &[String]) -> Vec<Machine> {
    match cases.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => vec![Machine::short()],
        ["all"] => vec![Machine::own(), Machine::lent()],
        ["own"] => vec![Machine::own()],
        ["lent"] => vec![Machine::lent()],
        ["program"] => vec![Machine::new("program", [PROGRAM.into()])],
        ["network"] => vec![Machine::new("network", [NETWORK, NETWORK_ON_QEMU].map(String::from))],
        ["snapshot"] => vec![Machine::new("snapshot", [SNAPSHOT.into()])],
        ["trouble"] => vec![Machine::new("trouble", [TROUBLE.into()])],
        ["agent"] => vec![Machine::new("agent", [AGENT.into()])],
        ["docker"] => vec![Machine::new("docker", [DOCKER.into()])],
        _ => vec![Machine::new("named", [contract("own", cases), contract("lent", cases)])],
    }
}

/// `cargo xtask lab`: fails unless every case passed.
pub fn run(cases: &[String]) -> Outcome {
    boot(&machines(cases), false)
}

/// `cargo xtask bench overhead`: what our program adds to plain `msb`, both as they are released: what a build
/// for development adds is felt where everything is emulated twice.
pub fn overhead() -> Outcome {
    boot(&[Machine::new("bench", [OVERHEAD.into()])], true)
}

/// Builds what is missing, and boots the machines side by side.
fn boot(machines: &[Machine], released: bool) -> Outcome {
    let own = std::env::current_exe().map_err(|error| text(&error))?;
    // This chore lies in <target>/<profile>/.
    let target = own.ancestors().nth(2).ok_or("no target folder")?;
    let lab = target.join("lab");
    std::fs::create_dir_all(&lab).map_err(|error| text(&error))?;
    // Its folder is one run's at a time.
    let lock = File::create(lab.join("lock")).map_err(|error| text(&error))?;
    lock.lock().map_err(|error| text(&error))?;
    let began = Instant::now();
    let built = cases::build(target, released)?;
    let base = base::ensure(&lab)?;
    let image = image::ensure(&lab, &built.contract)?;
    let has = |wanted: &str| machines.iter().flat_map(|machine| &machine.steps).any(|step| step == wanted);
    let parts = Parts {
        agent: has(AGENT).then(|| image::ensure_agent(&lab, &built.contract, &image)).transpose()?,
        docker: has(DOCKER).then(|| image::ensure_docker(&lab, &built.contract)).transpose()?,
        image,
        runtime: cases::install_runtime(&built.contract, &lab)?,
        contract: built.contract,
        program: built.program,
    };
    let prepared = began.elapsed();
    let verdicts: Vec<Outcome<Verdict>> = std::thread::scope(|scope| {
        let (lab, base, parts) = (&lab, &base, &parts);
        let running: Vec<_> =
            machines.iter().map(|machine| scope.spawn(move || one(lab, base, parts, machine))).collect();
        let ended = running.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.map(|outcome| outcome.unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    println!("consoles and logs: {}", lab.display());
    let verdict: Verdict = verdicts.into_iter().collect::<Outcome<Vec<_>>>()?.into_iter().sum();
    let line = format!(
        "{} passed, {} failed; {:.0} s to prepare, {:.0} s to run",
        verdict.passed,
        verdict.failed,
        prepared.as_secs_f64(),
        began.elapsed().saturating_sub(prepared).as_secs_f64()
    );
    println!("{line}");
    std::fs::write(lab.join("verdict.txt"), line + "\n").map_err(|error| text(&error))?;
    if verdict.failed == 0 && verdict.passed > 0 { Ok(()) } else { Err("not every case passed".into()) }
}

fn one(lab: &Path, base: &Base, parts: &Parts, machine: &Machine) -> Outcome<Verdict> {
    let steps = machine.steps.join("\n") + "\n";
    let disk = inputs::make(lab, machine.name, parts, &steps)?;
    let verdict = machine::run(lab, machine.name, base, &disk, machine.steps.len());
    let logs = inputs::take_logs(&disk, &lab.join("logs").join(machine.name));
    // A gigabyte or two, and made anew by every run.
    std::fs::remove_file(&disk).map_err(|error| text(&error))?;
    logs.and(verdict)
}
