//! Every case of the runtime contract on microsandbox, one process per case, each with a deadline.
//!
//! It needs a working `/dev/kvm` and a prepared folder, so it is no test that `cargo` runs by itself:
//! `cargo xtask lab` runs it on a machine of its own.
//!
//! `contract PLACE [--deadline SECONDS] [CASE…]`: PLACE holds `image.tar`, `image-id`, and
//! the runtime's two files in `runtime`. Prints a line per case, and `N passed, N failed`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod harness;
mod processes;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use harness::LabHarness;
use sandbox_runtime::contract::{Case, cases};

/// The first argument of the process that runs one case.
const ONE: &str = "--one";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == ONE) {
        return one(Path::new(&arguments[1]), &arguments[2]);
    }
    let mut deadline = Duration::from_mins(10);
    if let Some(at) = arguments.iter().position(|argument| argument == "--deadline") {
        let Some(seconds) = arguments.get(at + 1).and_then(|word| word.parse().ok()) else {
            eprintln!("error: --deadline takes seconds");
            return ExitCode::from(2);
        };
        deadline = Duration::from_secs(seconds);
        arguments.drain(at..=at + 1);
    }
    let Some((place, wanted)) = arguments.split_first() else {
        eprintln!("usage: contract PLACE [--deadline SECONDS] [CASE…]");
        return ExitCode::from(2);
    };
    let place = PathBuf::from(place);
    let harness = match LabHarness::new(&place) {
        Ok(harness) => harness,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let chosen = |case: &Case| wanted.is_empty() || wanted.iter().any(|name| name == case.name);
    let (mut passed, mut failed) = (0, 0);
    for case in cases(&harness).iter().filter(|case| chosen(case)) {
        let began = Instant::now();
        let outcome = in_a_process(&place, case.name, deadline);
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
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(place: &Path, name: &str) -> ExitCode {
    let outcome = LabHarness::new(place).and_then(|harness| {
        let case = cases(&harness).into_iter().find(|case| case.name == name);
        let case = case.ok_or_else(|| format!("there is no case `{name}`"))?;
        (case.run)(&harness).map_err(|failure| failure.0)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// A case that hangs, or takes its process down, is one failed case.
fn in_a_process(place: &Path, name: &str, deadline: Duration) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let errors = place.join("case.log");
    let log = std::fs::File::create(&errors).map_err(|error| error.to_string())?;
    let mut child = Command::new(own)
        .arg(ONE)
        .arg(place)
        .arg(name)
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|error| error.to_string())?;
    let ends = Instant::now() + deadline;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break Some(status);
        }
        if Instant::now() >= ends {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    // Whatever a case leaves behind must not weigh on the next one.
    let left = processes::end_machines();
    let said = std::fs::read_to_string(&errors).unwrap_or_default();
    match status {
        None => Err(format!("not done after {} seconds\n{said}", deadline.as_secs())),
        Some(status) if !status.success() => Err(if said.is_empty() { status.to_string() } else { said }),
        Some(_) if left > 0 => Err(format!("it left {left} machines running\n{said}")),
        Some(_) => Ok(()),
    }
}
