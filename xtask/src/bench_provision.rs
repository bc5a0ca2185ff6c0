//! `cargo xtask bench provision`: what a thousand files of configuration cost on a running sandbox, as medians on
//! the release build.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::bench_boot::{Bench, Outcome, text};
use crate::bench_wake::succeed;

const FILES: usize = 1_000;
const FOLDERS: usize = 20;
/// As much as a short prompt.
const BYTES: usize = 1_024;
/// Milliseconds for all of them, beside what a command costs that has nothing to copy.
const AIM: u128 = 1_000;

/// Copies all files `runs` times, each time with another content, and one of them likewise.
pub fn run(runs: usize) -> Outcome {
    let bench = Bench::new("1G")?;
    bench.ended(measure(&bench, runs))
}

fn measure(bench: &Bench, runs: usize) -> Outcome {
    println!("making the sandbox (the first time builds its image) …");
    succeed(exec(bench))?;
    let folder = bench.config().join("agents-sandbox/opencode/skills");
    let [mut none, mut one, mut all] = [const { Vec::new() }; 3];
    write(&folder, FILES, 0)?;
    succeed(exec(bench))?;
    for round in 1..=runs {
        bench.interrupt.check()?;
        none.push(Bench::timed(exec(bench))?);
        write(&folder, 1, round)?;
        one.push(Bench::timed(exec(bench))?);
        write(&folder, FILES, round + runs)?;
        all.push(Bench::timed(exec(bench))?);
    }
    println!(
        "{:<28} {:>9} {:>9} {:>9} {:>9}",
        format!("median of {runs}, ms"),
        "min",
        "median",
        "max",
        "aim"
    );
    let mut medians = Vec::new();
    for (name, times) in [("nothing to copy", none), ("1 file", one), ("1000 files", all)] {
        medians.push(line(name, times));
    }
    let [none, one, all] = medians[..] else { return Err("no times".into()) };
    let net = all.saturating_sub(none);
    println!("{:<28} {:>9} {:>9.1} {:>9} {AIM:>9}", "1000 files, beside exec true", "", ms(net), "");
    println!(
        "1000 files are {:.1} times one file, and {:.0} µs each",
        all.as_secs_f64() / one.as_secs_f64(),
        net.as_secs_f64() * 1e6 / FILES as f64
    );
    Ok(())
}

fn exec(bench: &Bench) -> std::process::Command {
    bench.command(&["exec", "--", "true"])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Prints it; the median.
fn line(name: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let (first, median, last) = (times[0], times[times.len() / 2], times[times.len() - 1]);
    println!("{name:<28} {:>9.1} {:>9.1} {:>9.1}", ms(first), ms(median), ms(last));
    median
}

/// The first `count` files, so that each differs from what it was in every other round.
fn write(folder: &Path, count: usize, round: usize) -> Outcome {
    for number in 0..count {
        let file = folder.join(format!("skill-{:02}/part-{number:04}.md", number % FOLDERS));
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(|error| text(&error))?;
        }
        let mut content = format!("round {round}\n");
        content.push_str(&"x".repeat(BYTES - content.len()));
        fs::write(file, content).map_err(|error| text(&error))?;
    }
    Ok(())
}
