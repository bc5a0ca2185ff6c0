//! A terminal of a hundred columns and forty lines, in tmux.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::bench_boot::{Bench, Outcome, text};

const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Dropping it closes the window, as a user would.
pub struct Window<'a> {
    bench: &'a Bench,
    socket: String,
}

impl<'a> Window<'a> {
    /// Opens it on the program with these arguments.
    pub fn open(bench: &'a Bench, arguments: &[&str]) -> Outcome<Self> {
        let window = Self { bench, socket: format!("agents-sandbox-bench-{}", std::process::id()) };
        let run = bench.command(arguments);
        let mut tmux = window.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40"]);
        tmux.arg(run.get_program()).args(run.get_args());
        for (name, value) in run.get_envs() {
            tmux.env(name, value.unwrap_or_default());
        }
        if let Some(folder) = run.get_current_dir() {
            tmux.current_dir(folder);
        }
        Bench::timed(tmux)?;
        Ok(window)
    }

    fn tmux(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(words);
        command
    }

    /// Types a line.
    pub fn line(&self, line: &str) -> Outcome {
        Bench::timed(self.tmux(&["send-keys", "-l", line]))?;
        Bench::timed(self.tmux(&["send-keys", "Enter"])).map(drop)
    }

    /// Waits until `seen` finds what it looks for on the screen.
    pub fn wait<T>(&self, what: &str, within: Duration, seen: impl Fn(&str) -> Option<T>) -> Outcome<T> {
        let begin = Instant::now();
        let mut shown = String::new();
        while begin.elapsed() < within {
            self.bench.interrupt.check()?;
            let output = self.tmux(&["capture-pane", "-p"]).output().map_err(|error| text(&error))?;
            if !output.status.success() {
                return Err(format!("the window closed by itself; it showed:\n{shown}"));
            }
            shown = String::from_utf8_lossy(&output.stdout).into_owned();
            if let Some(found) = seen(&shown) {
                return Ok(found);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Err(format!("no {what} on the screen:\n{shown}"))
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        // It is gone already where the program in it has ended.
        let _ = self.tmux(&["kill-server"]).output();
    }
}
