//! `cargo xtask bench wake`: how long a user waits for a sandbox that sleeps, and for the same one booted, as
//! medians of one run on the release build. opencode's server runs in it all along, and its client waits in a
//! session without a terminal.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench_boot::{Bench, Outcome, text};

/// Where the benchmark's server listens, inside the guest.
const PORT: u16 = 4321;
/// Seen once opencode has drawn its screen.
const DRAWN: &str = "ctrl+p commands";
/// Emulated and cold, it takes a minute.
const DRAWN_WITHIN: Duration = Duration::from_mins(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Measures `rounds` times what sleeps and `cold` times what is booted. Each line is printed as soon as it is
/// known.
pub fn run(rounds: usize, cold: usize) -> Outcome {
    let bench = Bench::new()?;
    let outcome = measure(&bench, rounds, cold);
    bench.clean();
    outcome
}

fn measure(bench: &Bench, rounds: usize, cold: usize) -> Outcome {
    println!("making the sandbox (the first time builds its image) …");
    succeed(bench.command(&["exec", "--", "true"]))?;
    start_server(bench)?;
    succeed(answer(bench))?;
    println!("drawing opencode once, for a session to come back to …");
    drawn(bench)?;

    println!("{:<30} {:>5} {:>9} {:>9} {:>9} {:>6}", "ms", "runs", "min", "median", "max", "aim");
    let (mut asleep, mut bytes) = (Vec::new(), Vec::new());
    let mut sleep = || -> Outcome {
        asleep.push(Bench::timed(bench.command(&["stop"]))?);
        bytes.push(saved(bench)?);
        Ok(())
    };
    let mut woken = |name: &str, aim: u32, wait: &dyn Fn() -> Outcome<Duration>| -> Outcome {
        let mut times = Vec::new();
        for _ in 0..rounds {
            sleep()?;
            times.push(wait()?);
        }
        print(name, times, Some(aim));
        Ok(())
    };
    woken("asleep -> exec true", 500, &|| Bench::timed(bench.command(&["exec", "--", "true"])))?;
    woken("asleep -> opencode answers", 700, &|| Bench::timed(answer(bench)))?;
    woken("asleep -> opencode is drawn", 1000, &|| drawn(bench))?;
    print("running -> asleep", asleep, Some(500));
    bytes.sort_unstable();
    println!("saved memory on disk: {} MiB (median)", bytes[bytes.len() / 2] >> 20);

    let booted = |name: &str, wait: &dyn Fn() -> Outcome<Duration>| -> Outcome {
        let mut times = Vec::new();
        for _ in 0..cold {
            succeed(bench.command(&["stop", "--cold"]))?;
            times.push(wait()?);
        }
        print(name, times, None);
        Ok(())
    };
    booted("cold -> exec true", &|| Bench::timed(bench.command(&["exec", "--", "true"])))?;
    booted("cold -> opencode answers", &|| {
        let begin = Instant::now();
        start_server(bench)?;
        succeed(answer(bench))?;
        Ok(begin.elapsed())
    })?;
    booted("cold -> opencode is drawn", &|| drawn(bench))
}

/// One line of the table; nothing without times.
fn print(name: &str, mut times: Vec<Duration>, aim: Option<u32>) {
    times.sort();
    let at = |index: usize| times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let aim = aim.map_or_else(|| "-".into(), |aim| aim.to_string());
    let runs = times.len();
    let (median, last) = (at(runs / 2), at(runs.saturating_sub(1)));
    println!("{name:<30} {runs:>5} {:>9.0} {median:>9.0} {last:>9.0} {aim:>6}", at(0));
}

/// How long it takes from the typed command until opencode's screen is on a terminal, whose window is then
/// closed.
fn drawn(bench: &Bench) -> Outcome<Duration> {
    let socket = format!("agents-sandbox-bench-{}", std::process::id());
    let tmux = || {
        let mut command = Command::new("tmux");
        command.args(["-L", &socket]);
        command
    };
    let run = bench.command(&["run"]);
    let begin = Instant::now();
    let mut window = tmux();
    window.args(["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40"]);
    window.arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        window.env(name, value.unwrap_or_default());
    }
    if let Some(folder) = run.get_current_dir() {
        window.current_dir(folder);
    }
    succeed(window)?;
    let mut shown = String::new();
    let mut took = None;
    while took.is_none() && begin.elapsed() < DRAWN_WITHIN {
        let output = tmux().args(["capture-pane", "-p"]).output().map_err(|error| text(&error))?;
        if !output.status.success() {
            return Err(format!("the window closed by itself; it showed:\n{shown}"));
        }
        shown = String::from_utf8_lossy(&output.stdout).into_owned();
        took = shown.contains(DRAWN).then(|| begin.elapsed());
        std::thread::sleep(LOOK_AGAIN);
    }
    succeed({
        let mut command = tmux();
        command.arg("kill-server");
        command
    })?;
    took.ok_or_else(|| format!("opencode did not draw its screen:\n{shown}"))
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
