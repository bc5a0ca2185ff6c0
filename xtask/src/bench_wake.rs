//! `cargo xtask bench wake`: how long a user waits for a sandbox that sleeps, and for the same one booted, as
//! medians of one run on the release build. opencode's server runs in it all along.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::bench_boot::{Bench, Outcome, text};

/// Where the benchmark's server listens, inside the guest.
const PORT: u16 = 4321;

/// Aims, in milliseconds; what is cold has none.
const AIMS: [(&str, Option<u32>); 5] = [
    ("running -> asleep", Some(500)),
    ("asleep -> exec true", Some(500)),
    ("asleep -> opencode answers", Some(700)),
    ("cold -> exec true", None),
    ("cold -> opencode answers", None),
];

/// Measures everything `runs` times and prints a table.
pub fn run(runs: usize) -> Outcome {
    let bench = Bench::new()?;
    let outcome = measure(&bench, runs);
    bench.clean();
    outcome
}

fn measure(bench: &Bench, runs: usize) -> Outcome {
    println!("making the sandbox (the first time builds its image) …");
    succeed(bench.command(&["exec", "--", "true"]))?;
    start_server(bench)?;
    succeed(answer(bench))?;
    let mut times: [Vec<Duration>; 5] = Default::default();
    let mut bytes = Vec::new();
    for round in 1..=runs {
        println!("round {round} of {runs} …");
        times[0].push(Bench::timed(bench.command(&["stop"]))?);
        bytes.push(saved(bench)?);
        times[1].push(Bench::timed(bench.command(&["exec", "--", "true"]))?);
        times[0].push(Bench::timed(bench.command(&["stop"]))?);
        times[2].push(Bench::timed(answer(bench))?);
    }
    for _ in 0..runs {
        succeed(bench.command(&["stop", "--cold"]))?;
        times[3].push(Bench::timed(bench.command(&["exec", "--", "true"]))?);
        succeed(bench.command(&["stop", "--cold"]))?;
        let begin = std::time::Instant::now();
        start_server(bench)?;
        succeed(answer(bench))?;
        times[4].push(begin.elapsed());
    }
    println!("{:<28} {:>9} {:>9} {:>9} {:>6}", format!("{runs} runs, ms"), "min", "median", "max", "aim");
    for ((name, aim), mut times) in AIMS.into_iter().zip(times) {
        times.sort();
        let at = |index: usize| times[index].as_secs_f64() * 1e3;
        let aim = aim.map_or_else(|| "-".into(), |aim| aim.to_string());
        let (median, last) = (at(times.len() / 2), at(times.len() - 1));
        println!("{name:<28} {:>9.0} {median:>9.0} {last:>9.0} {aim:>6}", at(0));
    }
    bytes.sort_unstable();
    println!("saved memory on disk: {} MiB (median)", bytes[bytes.len() / 2] >> 20);
    Ok(())
}

/// Runs a command that has to succeed.
pub fn succeed(command: Command) -> Outcome {
    Bench::timed(command).map(drop)
}

/// Starts opencode's server in the guest, where nobody attends it.
pub fn start_server(bench: &Bench) -> Outcome {
    let script = format!("setsid opencode serve --port {PORT} >/tmp/bench-serve.log 2>&1 </dev/null &");
    succeed(bench.command(&["exec", "--", "sh", "-c", &script]))
}

/// Returns when the server answers, from inside the guest.
pub fn answer(bench: &Bench) -> Command {
    let url = format!("http://127.0.0.1:{PORT}/global/health");
    let script = format!(
        "n=0; until curl -sf -m 5 {url} >/dev/null; do n=$((n+1)); [ $n -lt 3000 ] || exit 1; sleep 0.05; done"
    );
    bench.command(&["exec", "--", "sh", "-c", &script])
}

/// Bytes on disk of the saved memory.
pub fn saved(bench: &Bench) -> Outcome<u64> {
    inspect(bench)?["saved_memory"].as_u64().ok_or_else(|| "it did not fall asleep".into())
}

pub fn inspect(bench: &Bench) -> Outcome<Value> {
    let mut command = bench.command(&["sandbox", "inspect"]);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| text(&error))?;
    serde_json::from_slice(&output.stdout).map_err(|error| text(&error))
}
