//! What a sandbox does between two sleeps, and what must be as it was.

use std::time::Duration;

use serde_json::Value;

use super::host::field;
use crate::bench_boot::{Bench, Outcome, text};
use crate::bench_wake::{SERVER, shown};
use crate::window::Window;

/// Typed into a shell on a terminal: it counts for ever, in memory, on the screen and in `/tmp`.
const COUNTER: &str = "clear; i=0; while :; do i=$((i+1)); echo \"counted $i\"; echo $i $$ >/tmp/next; mv /tmp/next /tmp/counter; sleep 0.2; done";
/// Emulated, a shell begins in a second or two.
const SEEN_WITHIN: Duration = Duration::from_mins(1);

/// Appends the cycle's number everywhere and compares each file with what it must hold; then the counter, the
/// server's process with its time of birth, and figures of the guest program and of the whole guest.
const WORK: &str = r#"
for f in share.log "$HOME/home.log" /var/tmp/root.log; do
  echo "$1" >>"$f" && seq 1 "$1" | cmp -s - "$f" || { echo "$f is not what was written to it" >&2; exit 1; }
done
cat /tmp/counter
pid=$(cat SERVER); echo "$pid $(cut -d' ' -f22 /proc/$pid/stat)"
for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = sandbox-guest ] && agent=$p; done
grep -E '^(Threads|RssAnon):' $agent/status
echo "Descriptors: $(ls $agent/fd | wc -l)"
echo "Processes: $(ls -d /proc/[0-9]* | wc -l)"
grep -E '^(MemTotal|MemAvailable):' /proc/meminfo
"#;

const CHECK: &str = r#"
for f in share.log "$HOME/home.log" /var/tmp/root.log; do
  seq 1 "$1" | cmp - "$f" || exit 1
done
"#;

pub struct Work {
    session: u64,
    home: String,
    /// What must not change: the counter's shell, and the server.
    processes: Option<[String; 2]>,
    count: u64,
}

pub struct Done {
    pub count: u64,
    pub figures: Vec<(String, u64)>,
}

impl Work {
    /// Starts the counter in a session, and closes its window.
    pub fn begin(bench: &Bench) -> Outcome<Self> {
        let window = Window::open(bench, &["shell"])?;
        window.wait("prompt", SEEN_WITHIN, |screen| screen.contains("/workspace$").then_some(()))?;
        window.line(COUNTER)?;
        window.wait("counter", SEEN_WITHIN, counted)?;
        drop(window);
        let sessions = sessions(bench)?;
        let session = sessions[0]["id"].as_u64().ok_or_else(|| format!("no session: {sessions}"))?;
        Ok(Self { session, home: home(bench)?, processes: None, count: 0 })
    }

    /// One cycle's work, by which the sandbox wakes.
    pub fn go_on(&mut self, bench: &Bench, cycle: usize) -> Outcome<Done> {
        let script = WORK.replace("SERVER", SERVER);
        let shown = as_root(bench, &self.home, &script, cycle)?;
        let mut lines = shown.lines();
        let unclear = || format!("the guest shows {shown:?}");
        let (count, shell) = lines.next().and_then(|line| line.split_once(' ')).ok_or_else(unclear)?;
        let count: u64 = count.parse().map_err(|_| unclear())?;
        let processes = [shell.to_string(), lines.next().ok_or_else(unclear)?.to_string()];
        match &self.processes {
            Some(before) if *before != processes => {
                return Err(format!("the shell and the server were {before:?}, and are {processes:?}"));
            }
            _ if count < self.count => {
                return Err(format!("the counter went from {} to {count}", self.count));
            }
            _ => {}
        }
        (self.count, self.processes) = (count, Some(processes));
        let of = |name| field(&shown, name);
        let figures = [
            ("guest program: threads", of("Threads:")),
            ("guest program: memory, KiB", of("RssAnon:")),
            ("guest program: descriptors", of("Descriptors:")),
            ("guest: processes", of("Processes:")),
            ("guest's memory in use, KiB", of("MemTotal:").saturating_sub(of("MemAvailable:"))),
        ];
        let figures = figures.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        Ok(Done { count, figures })
    }

    /// The session is there, and nobody is attached to it.
    pub fn is_kept(&self, bench: &Bench) -> Outcome {
        let sessions = sessions(bench)?;
        let all = sessions.as_array().map(Vec::as_slice).unwrap_or_default();
        match all {
            [one] if one["id"] == self.session && one["status"] == "detached" => Ok(()),
            _ => Err(format!("session {} was detached, and there are {sessions}", self.session)),
        }
    }

    /// The counter goes on on the screen of whoever is back in its session.
    pub fn look(&self, bench: &Bench) -> Outcome {
        let window = Window::open(bench, &["shell"])?;
        // While it is drawn, older numbers and halves of numbers pass by.
        let goes_on = |screen: &str| counted(screen).filter(|count| *count >= self.count);
        let first = window.wait("counter that goes on", SEEN_WITHIN, goes_on)?;
        window.wait("counting", SEEN_WITHIN, |screen| counted(screen).filter(|count| *count > first + 2))?;
        drop(window);
        // The guest hears of a closed window a moment later.
        let mut outcome = self.is_kept(bench);
        for _ in 0..50 {
            if outcome.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            outcome = self.is_kept(bench);
        }
        outcome
    }
}

/// The last number on the screen.
fn counted(screen: &str) -> Option<u64> {
    let mut lines = screen.lines().rev();
    lines.find_map(|line| line.trim().strip_prefix("counted ")?.parse().ok())
}

fn sessions(bench: &Bench) -> Outcome<Value> {
    let shown = shown(bench.command(&["session", "list", "--format", "json"]))?;
    serde_json::from_str(&shown).map_err(|error| text(&error))
}

/// The folder of the sandbox's user.
fn home(bench: &Bench) -> Outcome<String> {
    let home = shown(bench.command(&["exec", "--", "sh", "-c", "echo $HOME"]))?;
    Ok(home.trim().to_string())
}

/// Runs a script that looks at every process, and at the user's own files.
fn as_root(bench: &Bench, home: &str, script: &str, cycle: usize) -> Outcome<String> {
    let (home, cycle) = (format!("HOME={home}"), cycle.to_string());
    shown(bench.command(&["exec", "--root", "-e", &home, "--", "sh", "-c", script, "sh", &cycle]))
}

/// Each file holds every line, on the host too.
pub fn check_files(bench: &Bench, cycles: usize) -> Outcome {
    as_root(bench, &home(bench)?, CHECK, cycles)?;
    let share = std::fs::read_to_string(bench.project().join("share.log")).map_err(|error| text(&error))?;
    let wanted: Vec<_> = (1..=cycles).map(|cycle| cycle.to_string()).collect();
    if share.lines().eq(&wanted) { Ok(()) } else { Err(format!("share.log is on the host: {share:?}")) }
}
