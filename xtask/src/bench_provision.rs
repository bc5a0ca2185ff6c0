//! `cargo xtask bench provision`: what a thousand files of configuration cost on a running sandbox, as medians on
//! the release build.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::bench_boot::{Bench, Outcome, text};
use crate::bench_wake::succeed;

const FILES: u32 = 1_000;
const FOLDERS: u32 = 20;
/// As much as a short prompt.
const BYTES: usize = 1_024;
/// Milliseconds for all of them, the command that has them copied included.
const AIM: u32 = 1_000;

/// Copies, changes and removes all files `runs` times.
pub fn run(runs: usize) -> Outcome {
    let bench = Bench::new("1G")?;
    bench.ended(measure(&bench, runs))
}

fn measure(bench: &Bench, runs: usize) -> Outcome {
    println!("making the sandbox (the first time builds its image) …");
    succeed(exec(bench))?;
    let folder = bench.config().join("agents-sandbox/opencode/skills");
    let [mut none, mut one, mut new, mut changed, mut gone] = [const { Vec::new() }; 5];
    for round in 0..runs {
        bench.interrupt.check()?;
        none.push(Bench::timed(exec(bench))?);
        write(&folder, FILES, 2 * round)?;
        new.push(Bench::timed(exec(bench))?);
        write(&folder, FILES, 2 * round + 1)?;
        changed.push(Bench::timed(exec(bench))?);
        write(&folder, 1, 2 * round)?;
        one.push(Bench::timed(exec(bench))?);
        fs::remove_dir_all(&folder).map_err(|error| text(&error))?;
        gone.push(Bench::timed(exec(bench))?);
    }
    println!(
        "{:<28} {:>9} {:>9} {:>9} {:>9}",
        format!("median of {runs}, ms"),
        "min",
        "median",
        "max",
        "aim"
    );
    let nothing = line("nothing to copy", none, None);
    let one = line("1 file", one, None);
    let new = line("1000 new files", new, Some(AIM));
    line("1000 changed files", changed, Some(AIM));
    line("1000 removed files", gone, Some(AIM));
    println!(
        "1000 files are {:.1} times one file, and {:.0} µs each beside a command with nothing to copy",
        new.as_secs_f64() / one.as_secs_f64(),
        new.saturating_sub(nothing).as_secs_f64() * 1e6 / f64::from(FILES)
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
fn line(name: &str, mut times: Vec<Duration>, aim: Option<u32>) -> Duration {
    times.sort();
    let (first, median, last) = (times[0], times[times.len() / 2], times[times.len() - 1]);
    let aim = aim.map_or_else(|| "-".into(), |aim| aim.to_string());
    println!("{name:<28} {:>9.1} {:>9.1} {:>9.1} {aim:>9}", ms(first), ms(median), ms(last));
    median
}

/// The first `count` files, so that each differs from what it was in every other round.
fn write(folder: &Path, count: u32, round: usize) -> Outcome {
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
