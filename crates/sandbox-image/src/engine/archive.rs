use std::io::{Read, Result};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::process::{Running, describe, spawn};
use crate::ImageError;

/// A docker archive on its way out of an engine. The end of the stream is only reported when the engine
/// ended well, so that half an archive never passes for one. Dropping it ends the engine's process.
#[derive(Debug)]
pub struct Archive {
    running: Running,
    stdout: ChildStdout,
    problem: Receiver<String>,
    tool: String,
    finished: bool,
}

impl Archive {
    pub(super) fn start(mut command: Command, tool: &str) -> crate::Result<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = spawn(&mut command, tool)?;
        let missing = || ImageError::Answer { tool: tool.into(), problem: "it has no output".into() };
        let stdout = running.0.stdout.take().ok_or_else(missing)?;
        let mut stderr = running.0.stderr.take().ok_or_else(missing)?;
        let (sender, problem) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            let text = String::from_utf8_lossy(&bytes);
            let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
            let _ = sender.send(last.to_string());
        });
        Ok(Self { running, stdout, problem, tool: tool.into(), finished: false })
    }
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.stdout.read(buffer)?;
        if count > 0 || buffer.is_empty() || self.finished {
            return Ok(count);
        }
        let status = self.running.0.wait()?;
        if status.success() {
            self.finished = true;
            return Ok(0);
        }
        let problem = self.problem.recv_timeout(Duration::from_secs(2)).unwrap_or_default();
        Err(std::io::Error::other(format!("{} ended with {}: {problem}", self.tool, describe(status))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn half_an_archive_is_an_error_and_a_whole_one_is_not() {
        let mut text = String::new();
        Archive::start(shell("printf half"), "save").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "half");
        let mut broken = Archive::start(shell("printf half; echo disk full >&2; exit 1"), "save").unwrap();
        let error = broken.read_to_string(&mut text).unwrap_err().to_string();
        assert_eq!(error, "save ended with exit status 1: disk full");
    }
}
