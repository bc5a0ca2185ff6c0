//! Whole flows on the fake runtime: every command is a local process, every boot takes milliseconds.
//!
//! This program is also what it starts: `internal keeper` is a sandbox's keeper, `client DIR` brings the
//! sandbox of the lab in DIR up and holds it until its input ends, `migrate DIR` takes its home over.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod changes;
mod ending;
mod homes;
mod lab;
mod provisioning;
mod pruning;
mod starting;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["internal", "keeper"] => lab::keeper(),
        ["client", dir] => lab::client(dir.as_ref()),
        ["migrate", dir] => lab::migrate(dir.as_ref()),
        _ => libtest_mimic::run(&Arguments::from_args(), trials()).exit_code(),
    }
}

fn trials() -> Vec<Trial> {
    let all =
        [starting::CASES, changes::CASES, ending::CASES, homes::CASES, provisioning::CASES, pruning::CASES];
    let cases = all.into_iter().flatten();
    cases
        .map(|(name, case)| {
            Trial::test(*name, move || {
                case();
                Ok(())
            })
        })
        .collect()
}

/// A name and what it shows; a panic is a failure.
type Case = (&'static str, fn());
