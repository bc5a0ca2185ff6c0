//! The cases of the runtime contract on microsandbox, each with a deadline.
//!
//! It needs a working `/dev/kvm` and a prepared folder, so it is no test that `cargo` runs by itself:
//! `cargo xtask lab` runs it on machines of its own.
//!
//! ```text
//! contract install PLACE             on the host: the pinned runtime; prints its folder
//! contract pack PLACE LAYER…         on the host: image.tar and image-id of these layers
//! contract own|lent PLACE [CASE…]    in the lab: the cases that boot sandboxes of their own, or those that
//!                                    share one; a line per case, and `N passed, N failed`
//! ```
//!
//! PLACE holds `image.tar`, `image-id`, and the runtime's two files in `runtime`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod harness;
mod prepare;
mod processes;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use harness::LabHarness;
use sandbox_runtime::contract::{Case, Power, cases};

/// Everything in the lab is emulated twice: the slowest case carries 100 MB in and out of a guest.
const DEADLINE: Duration = Duration::from_mins(12);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        // This program as the driver starts it.
        ["internal", "link", _] => {
            let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
            log.init();
            sandbox_runtime_microsandbox::link_process::run().map_err(|error| error.to_string())
        }
        ["install", place] => prepare::install(Path::new(place)).map(|found| println!("{}", found.display())),
        ["pack", place, ref layers @ ..] => {
            prepare::pack(Path::new(place), layers).map_err(|error| error.to_string())
        }
        [kind @ ("own" | "lent"), place, ref named @ ..] => run(Path::new(place), kind == "lent", named),
        _ => Err("usage: contract install|pack|own|lent …".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(place: &Path, lent: bool, named: &[&str]) -> Result<(), String> {
    let log = std::fs::File::create(place.join("contract.log")).map_err(|error| error.to_string())?;
    tracing_subscriber::fmt().with_writer(Arc::new(log)).with_ansi(false).init();
    let harness = Arc::new(LabHarness::new(place)?);
    let all = cases(&*harness);
    if let Some(unknown) = named.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        return Err(format!("error: there is no case `{unknown}`"));
    }
    let wanted = |case: &Case| case.borrows == lent && (named.is_empty() || named.contains(&case.name));
    let chosen: Vec<Case> = all.into_iter().filter(wanted).collect();
    let (mut passed, mut failed) = (0, 0);
    let mut began = Instant::now();
    if lent && !chosen.is_empty() {
        harness.lend_one().map_err(|problem| format!("error: the sandbox to share: {problem}"))?;
        println!("     the sandbox to share ({:.1} s)", began.elapsed().as_secs_f64());
    }
    for case in chosen {
        began = Instant::now();
        let outcome = one(&harness, case);
        let took = began.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("pass {} ({took:.1} s)", case.name);
            }
            Err(problem) => {
                failed += 1;
                println!("FAIL {} ({took:.1} s)", case.name);
                for line in problem.trim().lines() {
                    println!("     {line}");
                }
            }
        }
    }
    harness.take_back();
    println!("{passed} passed, {failed} failed");
    if failed == 0 { Ok(()) } else { Err("error: not every case passed".into()) }
}

/// A case that hangs is one failed case; its thread stays behind.
fn one(harness: &Arc<LabHarness>, case: Case) -> Result<(), String> {
    harness.let_grow(case.needs == Some(Power::LiveResources));
    let (sender, ended) = channel();
    let its = Arc::clone(harness);
    std::thread::spawn(move || sender.send((case.run)(&*its)));
    let outcome = match ended.recv_timeout(DEADLINE) {
        Ok(outcome) => outcome.map_err(|failure| failure.0),
        Err(RecvTimeoutError::Timeout) => Err(format!("not done after {} seconds", DEADLINE.as_secs())),
        Err(RecvTimeoutError::Disconnected) => Err("it panicked".into()),
    };
    // Whatever a case leaves behind must not weigh on the next one.
    let left = processes::end_machines(harness.lent_name().as_deref());
    match outcome {
        Ok(()) if left > 0 => Err(format!("it left {left} machines running")),
        other => other,
    }
}
