//! `cargo xtask bench wake`: how long a user waits for a sandbox that sleeps, and for the same one booted, as
//! medians of one run on the release build. opencode's server runs in it all along, and its client waits in a
//! session without a terminal.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench_boot::{Bench, Outcome, text};
use crate::window::Window;

/// Where the benchmark's server listens, inside the guest.
const PORT: u16 = 4321;
/// Seen once opencode has drawn its screen.
const DRAWN: &str = "ctrl+p commands";
/// Emulated and cold, it takes a minute.
const DRAWN_WITHIN: Duration = Duration::from_mins(10);
const ON_DISK_WITHIN: Duration = Duration::from_mins(2);
/// Two servers and a client of opencode: with less, what is measured is the guest's own lack of memory.
const MEMORY: &str = "2G";

/// Measures `rounds` times what sleeps and `cold` times what is booted. Each round is printed as soon as it is
/// over, and what is known of the table also when it is interrupted.
pub fn run(rounds: usize, cold: usize) -> Outcome {
    let bench = Bench::new(MEMORY)?;
    let mut table = Table::default();
    let outcome = measure(&bench, &mut table, rounds, cold);
    table.print();
    bench.ended(outcome)
}

/// What a user waits for, from a sandbox that sleeps or is off.
struct Wait {
    name: &'static str,
    aim: Option<u32>,
    /// What it sleeps with is on the disk before it is woken; else as it comes, held in the host's memory.
    on_disk: bool,
    until: fn(&Bench) -> Outcome<Duration>,
}

const WOKEN: [Wait; 6] = [
    Wait { name: "just asleep -> exec true", aim: Some(500), on_disk: false, until: exec },
    Wait { name: "just asleep -> opencode answers", aim: Some(700), on_disk: false, until: answers },
    Wait { name: "just asleep -> opencode is drawn", aim: Some(1000), on_disk: false, until: drawn },
    Wait { name: "on disk -> exec true", aim: Some(500), on_disk: true, until: exec },
    Wait { name: "on disk -> opencode answers", aim: Some(700), on_disk: true, until: answers },
    Wait { name: "on disk -> opencode is drawn", aim: Some(1000), on_disk: true, until: drawn },
];
const BOOTED: [Wait; 3] = [
    Wait { name: "cold -> exec true", aim: None, on_disk: false, until: exec },
    Wait {
        name: "cold -> opencode answers",
        aim: None,
        on_disk: false,
        until: |bench| {
            let begin = Instant::now();
            start_server(bench)?;
            succeed(answer(bench))?;
            Ok(begin.elapsed())
        },
    },
    Wait { name: "cold -> opencode is drawn", aim: None, on_disk: false, until: drawn },
];
const ASLEEP: &str = "running -> asleep";

fn measure(bench: &Bench, table: &mut Table, rounds: usize, cold: usize) -> Outcome {
    println!("making the sandbox (the first time builds its image) …");
    exec(bench)?;
    start_server(bench)?;
    succeed(answer(bench))?;
    println!("drawing opencode once, for a session to come back to …");
    drawn(bench)?;
    for wait in &WOKEN {
        for round in 1..=rounds {
            bench.interrupt.check()?;
            let asleep = Bench::timed(bench.command(&["stop"]))?;
            if wait.on_disk {
                reach_disk(bench)?;
            }
            let bytes = saved(bench)?;
            let woken = (wait.until)(bench)?;
            let (name, ms, mib) = (wait.name, woken.as_millis(), bytes >> 20);
            println!("{name} {round}/{rounds}: {ms} ms; asleep in {} ms, {mib} MiB", asleep.as_millis());
            table.add(ASLEEP, Some(500), asleep);
            table.add(wait.name, wait.aim, woken);
            if wait.on_disk {
                table.bytes.push(bytes);
            }
        }
    }
    for wait in &BOOTED {
        for round in 1..=cold {
            bench.interrupt.check()?;
            succeed(bench.command(&["stop", "--cold"]))?;
            let booted = (wait.until)(bench)?;
            println!("{} {round}/{cold}: {} ms", wait.name, booted.as_millis());
            table.add(wait.name, wait.aim, booted);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Table {
    /// Name, aim in milliseconds, and times.
    lines: Vec<(&'static str, Option<u32>, Vec<Duration>)>,
    /// Of each saved memory, on disk.
    bytes: Vec<u64>,
}

impl Table {
    fn add(&mut self, name: &'static str, aim: Option<u32>, time: Duration) {
        match self.lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.2.push(time),
            None => self.lines.push((name, aim, vec![time])),
        }
    }

    fn print(mut self) {
        println!("{:<34} {:>5} {:>9} {:>9} {:>9} {:>6}", "ms", "runs", "min", "median", "max", "aim");
        for (name, aim, mut times) in self.lines {
            times.sort();
            let at = |index: usize| times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3);
            let aim = aim.map_or_else(|| "-".into(), |aim| aim.to_string());
            let runs = times.len();
            let (median, last) = (at(runs / 2), at(runs.saturating_sub(1)));
            println!("{name:<34} {runs:>5} {:>9.0} {median:>9.0} {last:>9.0} {aim:>6}", at(0));
        }
        self.bytes.sort_unstable();
        if let Some(median) = self.bytes.get(self.bytes.len() / 2) {
            println!("saved memory on disk: {} MiB (median)", median >> 20);
        }
    }
}

/// Waits until the saved memory is on the disk, with nothing left to write.
fn reach_disk(bench: &Bench) -> Outcome {
    let name = inspect(bench)?["spec"]["name"].as_str().ok_or("the sandbox has no name")?.to_string();
    let record = bench.data().join("agents-sandbox/qemu/sandboxes").join(name).join("memory.json");
    let begin = Instant::now();
    while !std::fs::read_to_string(&record).map_err(|error| text(&error))?.contains("on-disk") {
        if begin.elapsed() > ON_DISK_WITHIN {
            return Err("its memory does not reach the disk".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn answers(bench: &Bench) -> Outcome<Duration> {
    Bench::timed(answer(bench))
}

fn exec(bench: &Bench) -> Outcome<Duration> {
    Bench::timed(bench.command(&["exec", "--", "true"]))
}

/// How long it takes from the typed command until opencode's screen is on a terminal, whose window is then
/// closed.
fn drawn(bench: &Bench) -> Outcome<Duration> {
    let begin = Instant::now();
    let window = Window::open(bench, &["run"])?;
    window.wait("opencode", DRAWN_WITHIN, |screen| screen.contains(DRAWN).then(|| begin.elapsed()))
}

/// Runs a command that has to succeed.
pub fn succeed(command: Command) -> Outcome {
    Bench::timed(command).map(drop)
}

/// Where the server's process is noted, inside the guest.
pub const SERVER: &str = "/tmp/bench-serve.pid";

/// Starts opencode's server in the guest, where nobody attends it.
pub fn start_server(bench: &Bench) -> Outcome {
    let script = format!(
        "setsid sh -c 'echo $$ >{SERVER}; exec opencode serve --port {PORT}' >/tmp/bench-serve.log 2>&1 </dev/null &"
    );
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
    let shown = shown(bench.command(&["sandbox", "inspect"]))?;
    serde_json::from_str(&shown).map_err(|error| text(&error))
}

/// What a command that has to succeed writes.
pub fn shown(mut command: Command) -> Outcome<String> {
    let output = command.output().map_err(|error| text(&error))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(said(&output.stdout))
    } else {
        Err(format!("{command:?}: {}{}", said(&output.stdout), said(&output.stderr)))
    }
}
