//! Tools as child processes: closed standard input, one stream of lines, a deadline, and an end on request.
//!
//! Children stay in our process group, so that Ctrl-C on a terminal reaches them too.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::failure::Failure;
use super::steps::parse_step;
use crate::{Events, ImageError, Result};

const POLL: Duration = Duration::from_millis(100);
/// How long a tool may take to clean up before it is killed.
const GRACE: Duration = Duration::from_secs(20);
/// How long the output of an ended tool may stay open in a process that it left behind.
const LEFT_OPEN: Duration = Duration::from_secs(2);

/// Ends the child when an error or a panic leaves it behind.
#[derive(Debug)]
pub(super) struct Running(pub(super) Child);

impl Running {
    pub(super) fn end(&mut self) {
        if let (Ok(None), Some(pid)) = (self.0.try_wait(), Pid::from_raw(self.0.id().cast_signed())) {
            let _ = kill_process(pid, Signal::TERM);
            let end = Instant::now() + GRACE;
            while matches!(self.0.try_wait(), Ok(None)) {
                if Instant::now() > end {
                    let _ = self.0.kill();
                    let _ = self.0.wait();
                    return;
                }
                std::thread::sleep(POLL / 5);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

pub(super) fn spawn(command: &mut Command, tool: &str) -> Result<Running> {
    let child = command.stdin(Stdio::null()).spawn();
    child.map(Running).map_err(|source| ImageError::Start { tool: tool.into(), source })
}

pub(super) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}

/// Runs a tool to its end, with its output as log lines and steps. Fails unless it ends with 0.
pub(crate) fn run(
    mut command: Command,
    tool: &str,
    deadline: Option<Duration>,
    events: &mut dyn Events,
) -> Result<()> {
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut running = spawn(&mut command, tool)?;
    // The command holds the pipe's writing ends; with them open there is no end of output.
    drop(command);
    let lines = read_lines(reader);
    let started = Instant::now();
    let mut failure = Failure::default();
    let mut ended: Option<Instant> = None;
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => {
                if let Some(found) = parse_step(&line) {
                    events.step(&found);
                }
                events.log(&line);
                failure.hear(&line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if running.0.try_wait()?.is_some() {
                    let since = ended.get_or_insert_with(Instant::now);
                    if since.elapsed() > LEFT_OPEN {
                        break;
                    }
                }
            }
        }
        if events.cancelled() {
            running.end();
            return Err(ImageError::Cancelled);
        }
        if let Some(deadline) = deadline.filter(|limit| started.elapsed() > *limit) {
            running.end();
            return Err(ImageError::Deadline { tool: tool.into(), deadline });
        }
    }
    let status = running.0.wait()?;
    if events.cancelled() {
        return Err(ImageError::Cancelled);
    }
    if status.success() {
        return Ok(());
    }
    Err(ImageError::Failed(failure.report(tool, describe(status))))
}

/// A build's output is not ours: it must not reach the user's terminal as commands.
fn printable(line: &str) -> String {
    let plain = anstream::adapter::strip_str(line).to_string();
    plain.chars().filter(|c| !c.is_control() || *c == '\t').collect()
}

fn read_lines(reader: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&bytes);
            // A progress meter rewrites its line; only its last state is worth a line of a log.
            let text = text.trim_end_matches(['\n', '\r']);
            let line = printable(text.rsplit('\r').next().unwrap_or(text));
            if sender.send(line).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    receiver
}

/// A tool's whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub success: bool,
    pub stdout: String,
    /// The last line it wrote on standard error that has any text.
    pub problem: String,
}

/// Runs a tool that answers soon; longer than `deadline` is an error.
pub(crate) fn capture(mut command: Command, tool: &str, deadline: Duration) -> Result<Answer> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = spawn(&mut command, tool)?;
    let collect = |stream: Option<Box<dyn Read + Send>>| {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
        receiver
    };
    let stdout = collect(running.0.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>));
    let stderr = collect(running.0.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>));
    let started = Instant::now();
    let late = || ImageError::Deadline { tool: tool.into(), deadline };
    let stdout = stdout.recv_timeout(deadline).map_err(|_| late())?;
    let rest = deadline.saturating_sub(started.elapsed()).max(LEFT_OPEN);
    let stderr = stderr.recv_timeout(rest).map_err(|_| late())?;
    let status = running.0.wait()?;
    let problem = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let problem = if problem.is_empty() { describe(status) } else { problem.to_string() };
    Ok(Answer { success: status.success(), stdout, problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Silent, Step};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[derive(Default)]
    struct Impatient {
        lines: Vec<String>,
        steps: Vec<String>,
        cancel_at: Option<String>,
    }

    impl Events for Impatient {
        fn stage(&mut self, _text: &str) {}

        fn step(&mut self, step: &Step) {
            self.steps.push(step.text.clone());
        }

        fn log(&mut self, line: &str) {
            self.lines.push(line.into());
        }

        fn waiting(&mut self, _holder: &str) {}

        fn cancelled(&self) -> bool {
            self.cancel_at.as_ref().is_some_and(|line| self.lines.contains(line))
        }
    }

    #[test]
    fn a_failure_carries_its_step_and_the_last_forty_lines() {
        let script = "seq 1 60; echo 'STEP 2/3: RUN false'; echo broken >&2; exit 3";
        let mut events = Impatient::default();
        let ImageError::Failed(failure) = run(shell(script), "tool", None, &mut events).unwrap_err() else {
            panic!("not a failure")
        };
        assert_eq!(failure.to_string(), "tool ended with exit status 3 in the step `RUN false`");
        assert_eq!(failure.last_lines.len(), 40);
        assert_eq!(failure.last_lines[0], "23");
        assert_eq!(failure.last_lines[39], "broken");
        assert_eq!(events.lines.len(), 62);
        assert_eq!(events.steps, ["RUN false"]);
    }

    #[test]
    fn a_deadline_and_a_cancellation_end_the_tool() {
        let started = Instant::now();
        let error =
            run(shell("exec sleep 60"), "tool", Some(Duration::from_millis(300)), &mut Silent).unwrap_err();
        assert!(matches!(error, ImageError::Deadline { .. }), "{error}");
        let mut events = Impatient { cancel_at: Some("ready".into()), ..Impatient::default() };
        let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let error = run(shell(script), "tool", None, &mut events).unwrap_err();
        assert!(matches!(error, ImageError::Cancelled), "{error}");
        let error = capture(shell("exec sleep 60"), "tool", Duration::from_millis(300)).unwrap_err();
        assert!(matches!(error, ImageError::Deadline { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn escape_sequences_do_not_get_through() {
        let mut events = Impatient::default();
        let script = "printf '\\033[91mred\\033[0m\\a\\tx\\033]0;title\\007y\\n'";
        run(shell(script), "tool", None, &mut events).unwrap();
        assert_eq!(events.lines, ["red\txy"]);
    }

    #[test]
    fn output_left_open_by_a_stray_process_does_not_hang_the_build() {
        let started = Instant::now();
        run(shell("sleep 15 & echo done"), "tool", None, &mut Silent).unwrap();
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn standard_input_is_closed_and_progress_meters_become_one_line() {
        let mut events = Impatient::default();
        run(shell("cat; printf '1%%\\r2%%\\n'"), "tool", None, &mut events).unwrap();
        assert_eq!(events.lines, ["2%"]);
    }
}
