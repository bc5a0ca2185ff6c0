//! Real virtual machines: every case of the runtime contract on QEMU, as root and as an ordinary user, and
//! what may go wrong on the way to sleep and back.
//!
//! Called by root, each case runs twice: as root, and in a second process as a user made for it. Called by
//! anyone else, it runs as who that is. Nothing is skipped: what is missing fails the case.

#![allow(clippy::print_stderr, reason = "the second process reports to the first")]

mod added_ports;
mod at_once;
mod beside;
mod contract;
mod homes;
mod house;
mod image;
mod interrupted;
mod killed;
mod moved;
mod person;
mod place;
#[path = "../../../sandbox-network/tests/bridge/proxies.rs"]
#[allow(dead_code, reason = "the bridge's own cases use the other kinds")]
mod proxies;
mod proxy;
mod secrets;
mod sleep;
mod sleep_refused;
mod sleep_steps;
mod sleeper;
mod spec;
#[path = "../../../sandbox-network/tests/bridge/world.rs"]
mod world;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Set for the second process: the case it shall run.
const CASE: &str = "AGENTS_SANDBOX_VM_CASE";

/// Cases that need nothing but who runs them.
fn plain() -> Vec<house::Case> {
    let all: [&[house::Case]; 7] = [
        &added_ports::CASES,
        &at_once::CASES,
        &interrupted::CASES,
        &killed::CASES,
        &sleep::CASES,
        &sleep_refused::CASES,
        &sleep_steps::CASES,
    ];
    all.concat()
}

fn main() -> ExitCode {
    if let Some(case) = std::env::var_os(CASE) {
        let case = case.to_string_lossy();
        let outcome = match &*case {
            secrets::CASE => secrets::inside(),
            proxy::CASE => proxy::inside(),
            case => contract::run(case),
        };
        return match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        };
    }
    let as_root = rustix::process::geteuid().is_root();
    let mut trials = Vec::new();
    for case in contract::names() {
        let own = if as_root { "root" } else { "user" };
        trials.push(Trial::test(format!("{own}::{case}"), move || contract::run(case).map_err(Failed::from)));
        if as_root {
            trials.push(Trial::test(format!("user::{case}"), move || {
                person::run_as_ordinary(&[(CASE, case)]).map_err(Failed::from)
            }));
        }
    }
    for (name, run) in homes::CASES {
        trials.push(Trial::test(format!("homes::{name}"), move || run().map_err(Failed::from)));
    }
    trials.push(Trial::test(beside::CASE, || beside::run().map_err(Failed::from)));
    trials.push(Trial::test(moved::CASE, || moved::run().map_err(Failed::from)));
    trials.push(Trial::test(proxy::CASE, || proxy::run().map_err(Failed::from)));
    trials.push(Trial::test(secrets::CASE, || secrets::run().map_err(Failed::from)));
    for (name, case) in plain() {
        trials.push(Trial::test(name, move || case().map_err(Failed::from)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
