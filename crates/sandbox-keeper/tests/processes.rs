//! Keepers and clients as real processes, on the fake runtime.
//!
//! This program is also the keeper and the client that its tests start.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the roles speak with the tests that start them"
)]

#[path = "processes/role.rs"]
mod role;
#[path = "processes/world.rs"]
mod world;

#[path = "processes/death.rs"]
mod death;
#[path = "processes/idle.rs"]
mod idle;
#[path = "processes/race.rs"]
mod race;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;
type Test = (&'static str, fn() -> Outcome);

fn main() -> ExitCode {
    if let Some(code) = role::play() {
        return code;
    }
    let tests = [death::TESTS, idle::TESTS, race::TESTS].concat();
    let trials = tests
        .into_iter()
        .map(|(name, run)| Trial::test(name, move || run().map_err(|error| Failed::from(error.to_string()))))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
