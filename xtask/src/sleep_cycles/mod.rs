//! `cargo xtask sleep-cycles`: a sandbox that works, sleeps and wakes, many times over. It ends with an error at
//! the first thing that is lost (a line of a file on the share, in the home or on the root disk, a process, the
//! server, the session with its counter) or that keeps growing.

mod growth;
mod host;
mod work;

use std::time::{Duration, Instant};

use crate::bench_boot::{Bench, Outcome, text};
use crate::bench_wake::{answer, inspect, saved, start_server, succeed};
use growth::Growth;
use host::Host;
use work::Work;

/// Looking at the session on a terminal takes as long as a cycle: not each of them does.
const ATTACH_EVERY: usize = 10;
/// From the end of `stop` to the end of the last process that waits for nobody.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// Runs `cycles` of them. What was seen so far is printed at every end.
pub fn run(cycles: usize) -> Outcome {
    let bench = Bench::new("1G")?;
    let mut seen = Seen::default();
    let outcome = repeat(&bench, cycles, &mut seen);
    seen.print();
    bench.ended(outcome)?;
    println!("{cycles} cycles, nothing lost, nothing grown");
    Ok(())
}

#[derive(Default)]
struct Seen {
    cycles: usize,
    growth: Growth,
    /// From the word to sleep to the prompt, and from the next word to the end of its work.
    asleep: Vec<Duration>,
    woken: Vec<Duration>,
}

impl Seen {
    fn print(&self) {
        println!("{} cycles", self.cycles);
        for (name, times) in [("stop", &self.asleep), ("wake and work", &self.woken)] {
            let mut times = times.clone();
            times.sort();
            if let (Some(last), Some(median)) = (times.last(), times.get(times.len() / 2)) {
                println!("{name}: median {} ms, at most {} ms", median.as_millis(), last.as_millis());
            }
        }
        print!("{}", self.growth);
    }
}

fn repeat(bench: &Bench, cycles: usize, seen: &mut Seen) -> Outcome {
    println!("making the sandbox (the first time builds its image) …");
    succeed(bench.command(&["exec", "--", "true"]))?;
    start_server(bench)?;
    succeed(answer(bench))?;
    let mut work = Work::begin(bench)?;
    let host = Host::of(bench)?;
    for cycle in 1..=cycles {
        bench.interrupt.check()?;
        let at = |problem: String| format!("cycle {cycle}: {problem}");
        let begin = Instant::now();
        let guest = work.go_on(bench, cycle).map_err(at)?;
        if cycle > 1 {
            seen.woken.push(begin.elapsed());
        }
        succeed(answer(bench)).map_err(at)?;
        work.is_kept(bench).map_err(at)?;
        if cycle % ATTACH_EVERY == 0 {
            work.look(bench).map_err(at)?;
        }
        for (name, value) in guest.figures {
            seen.growth.note(cycle, name, value);
        }
        for (name, value) in host.running().map_err(at)? {
            seen.growth.note(cycle, name, value);
        }
        let asleep = Bench::timed(bench.command(&["stop"])).map_err(at)?;
        seen.asleep.push(asleep);
        let memory = saved(bench).map_err(at)?;
        host.ends(ENDS_WITHIN).map_err(at)?;
        let usage = inspect(bench)?["disk_usage"]
            .as_u64()
            .ok_or("no disk usage is shown")
            .map_err(|error| text(&error))?;
        seen.growth.note(cycle, "saved memory, KiB".into(), memory >> 10);
        seen.growth.note(cycle, "disk usage, KiB".into(), usage >> 10);
        for (name, value) in host.asleep().map_err(at)? {
            seen.growth.note(cycle, name, value);
        }
        seen.cycles = cycle;
        println!(
            "cycle {cycle}/{cycles}: counted {}, woke and worked in {} ms, asleep in {} ms, memory {} MiB, disk {} MiB",
            guest.count,
            seen.woken.last().map_or(0, Duration::as_millis),
            asleep.as_millis(),
            memory >> 20,
            usage >> 20
        );
        seen.growth.check(cycle)?;
    }
    println!("booting it once more, for the files alone …");
    succeed(bench.command(&["stop", "--cold"]))?;
    work::check_files(bench, cycles)
}
