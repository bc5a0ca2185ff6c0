//! Every case of the runtime contract on microsandbox, one process per case, each with a deadline.
//!
//! It needs a working `/dev/kvm` and a prepared folder, so it is no test that `cargo` runs by itself:
//! `cargo xtask lab` runs it on a machine of its own.
//!
//! ```text
//! contract install PLACE       on the host: the pinned runtime; prints its folder
//! contract pack LAYER PLACE    on the host: image.tar and image-id of one layer
//! contract run PLACE [CASE…]   in the lab: a line per case, and `N passed, N failed`
//! contract one PLACE CASE      one case in this process
//! ```
//!
//! PLACE holds `image.tar`, `image-id`, and the runtime's two files in `runtime`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod harness;
mod prepare;
mod processes;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use harness::LabHarness;
use sandbox_runtime::contract::{Case, cases};

/// Everything in the lab is emulated twice: the slowest case carries 100 MB in and out of a guest.
const DEADLINE: Duration = Duration::from_mins(12);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["install", place] => prepare::install(Path::new(place)).map(|found| println!("{}", found.display())),
        ["pack", layer, place] => {
            prepare::pack(Path::new(layer), Path::new(place)).map_err(|error| error.to_string())
        }
        ["one", place, case] => one(Path::new(place), case),
        ["run", place, ref cases @ ..] => run(Path::new(place), cases),
        _ => Err("usage: contract install|pack|run|one …".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(place: &Path, wanted: &[&str]) -> Result<(), String> {
    let harness = LabHarness::new(place)?;
    let chosen = |case: &Case| wanted.is_empty() || wanted.contains(&case.name);
    let (mut passed, mut failed) = (0, 0);
    for case in cases(&harness).iter().filter(|case| chosen(case)) {
        let began = Instant::now();
        let outcome = in_a_process(place, case.name);
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
    if failed == 0 && passed > 0 { Ok(()) } else { Err("error: not every case passed".into()) }
}

fn one(place: &Path, name: &str) -> Result<(), String> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let harness = LabHarness::new(place)?;
    let case = cases(&harness).into_iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| format!("there is no case `{name}`"))?;
    (case.run)(&harness).map_err(|failure| failure.0)
}

/// A case that hangs, or takes its process down, is one failed case.
fn in_a_process(place: &Path, name: &str) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let errors = place.join(format!("case-{name}.log"));
    let log = std::fs::File::create(&errors).map_err(|error| error.to_string())?;
    let mut child = Command::new(own)
        .arg("one")
        .arg(place)
        .arg(name)
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|error| error.to_string())?;
    let ends = Instant::now() + DEADLINE;
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
        None => Err(format!("not done after {} seconds\n{said}", DEADLINE.as_secs())),
        Some(status) if !status.success() => Err(if said.is_empty() { status.to_string() } else { said }),
        Some(_) if left > 0 => Err(format!("it left {left} machines running\n{said}")),
        Some(_) => Ok(()),
    }
}
