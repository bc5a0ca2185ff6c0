//! `cargo xtask sleep-cycles`: a sandbox that works, sleeps and wakes, many times over. Ends with an error at
//! the first thing that is lost: a line of a file on the share, in the home or on the root disk, a process,
//! the server, or disk space that keeps growing.

use std::process::Stdio;

use crate::bench_boot::{Bench, Outcome, text};
use crate::bench_wake::{answer, inspect, saved, start_server, succeed};

/// A program that counts for ever, in memory and in `/tmp`.
const COUNTER: &str = "setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i $$ >/tmp/next; mv /tmp/next /tmp/counter; sleep 0.2; done' >/dev/null 2>&1 </dev/null &";

/// Appends one line everywhere, and shows the state: lines of each file, the counter, its process.
const WORK: &str = "for f in share.log $HOME/home.log /var/tmp/root.log; do echo line >>$f; wc -l <$f; done; cat /tmp/counter";

/// Runs `cycles` of them.
pub fn run(cycles: usize) -> Outcome {
    let bench = Bench::new()?;
    let outcome = repeat(&bench, cycles);
    bench.clean();
    outcome
}

fn repeat(bench: &Bench, cycles: usize) -> Outcome {
    println!("making the sandbox (the first time builds its image) …");
    succeed(bench.command(&["exec", "--", "true"]))?;
    start_server(bench)?;
    succeed(answer(bench))?;
    succeed(bench.command(&["exec", "--", "sh", "-c", COUNTER]))?;
    let (mut count, mut process, mut first_usage) = (0, None, None);
    for cycle in 1..=cycles {
        let seen = work(bench)?;
        if seen.lines != [cycle; 3] {
            return Err(format!("cycle {cycle}: the files have {:?} lines", seen.lines));
        }
        if seen.count < count || process.as_ref().is_some_and(|process| *process != seen.process) {
            return Err(format!("cycle {cycle}: the counter was {count} of {process:?}, and is {seen:?}"));
        }
        (count, process) = (seen.count, Some(seen.process));
        succeed(answer(bench))?;
        succeed(bench.command(&["stop"]))?;
        let memory = saved(bench)?;
        let usage = inspect(bench)?["disk_usage"].as_u64().ok_or("no disk usage is shown")?;
        // The guest's caches fill up in the first cycles.
        if cycle == 5 {
            first_usage = Some(usage);
        }
        if let Some(first) = first_usage
            && usage > first + first / 2
        {
            return Err(format!("cycle {cycle}: {usage} bytes on disk, after {first} in the fifth"));
        }
        println!("cycle {cycle}: counted {count}, memory {} MiB, disk {} MiB", memory >> 20, usage >> 20);
    }
    println!("{cycles} cycles, nothing lost");
    Ok(())
}

#[derive(Debug)]
struct Seen {
    lines: Vec<usize>,
    count: u64,
    process: String,
}

fn work(bench: &Bench) -> Outcome<Seen> {
    let mut command = bench.command(&["exec", "--", "sh", "-c", WORK]);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| text(&error))?;
    if !output.status.success() {
        return Err(format!("the work failed: {}", output.status));
    }
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = shown.lines();
    let counts: Vec<usize> = lines.by_ref().take(3).filter_map(|line| line.trim().parse().ok()).collect();
    let counter = lines.next().and_then(|line| line.split_once(' '));
    match counter.and_then(|(count, process)| Some((count.parse().ok()?, process.to_string()))) {
        Some((count, process)) => Ok(Seen { lines: counts, count, process }),
        None => Err(format!("the guest shows {shown:?}")),
    }
}
