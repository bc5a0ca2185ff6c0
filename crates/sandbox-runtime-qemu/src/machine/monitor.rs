//! QEMU's own control channel (QMP): JSON lines, one answer for each command, events in between.

use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Between two looks at a transfer that takes a quarter of a second.
const LOOK_AGAIN: Duration = Duration::from_millis(3);

/// Why QEMU did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    #[error("QEMU refuses `{command}`: {problem}")]
    Refused { command: String, problem: String },
    #[error("QEMU's control channel is closed")]
    Closed,
    #[error("QEMU's control channel: {0}")]
    Io(#[from] std::io::Error),
    #[error("QEMU says what is no answer: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the state could not be {what}: {problem}")]
    Transfer { what: &'static str, problem: String },
}

/// The channel to one QEMU. One command at a time; its events are passed over.
#[derive(Debug)]
pub struct Monitor {
    lines: BufReader<UnixStream>,
    greeted: bool,
}

impl Monitor {
    /// Speaks to QEMU on its other end of `socket`, once there is something to say.
    pub fn new(socket: StdUnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { lines: BufReader::new(UnixStream::from_std(socket)?), greeted: false })
    }

    /// One command and its answer. `arguments` are an object, or null for none.
    pub async fn run(&mut self, command: &str, arguments: Value) -> Result<Value, MonitorError> {
        if !self.greeted {
            // QEMU speaks first, and listens to nothing else before this.
            self.line().await?;
            self.ask("qmp_capabilities", Value::Null).await?;
            self.greeted = true;
        }
        self.ask(command, arguments).await
    }

    async fn ask(&mut self, command: &str, arguments: Value) -> Result<Value, MonitorError> {
        let mut message = json!({ "execute": command });
        if !arguments.is_null() {
            message["arguments"] = arguments;
        }
        let mut text = serde_json::to_vec(&message)?;
        text.push(b'\n');
        self.lines.get_mut().write_all(&text).await?;
        loop {
            let mut answer = self.line().await?;
            if let Some(error) = answer.get("error") {
                let problem = error["desc"].as_str().unwrap_or("no reason given").into();
                return Err(MonitorError::Refused { command: command.into(), problem });
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    async fn line(&mut self) -> Result<Value, MonitorError> {
        let mut line = String::new();
        if self.lines.read_line(&mut line).await? == 0 {
            return Err(MonitorError::Closed);
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Leaves the guest's memory where it is, in its file, on the next transfer.
    async fn leave_memory(&mut self) -> Result<(), MonitorError> {
        let capabilities = json!({ "capabilities": [{ "capability": "x-ignore-shared", "state": true }] });
        self.run("migrate-set-capabilities", capabilities).await.map(drop)
    }

    /// Stands the guest still and writes the devices' state to `file`, below QEMU's folder.
    pub async fn save(&mut self, file: &str) -> Result<(), MonitorError> {
        self.run("stop", Value::Null).await?;
        self.leave_memory().await?;
        // The default is made for networks.
        self.run("migrate-set-parameters", json!({ "max-bandwidth": 8_u64 << 30, "downtime-limit": 10_000 }))
            .await?;
        self.run("migrate", json!({ "uri": format!("file:{file}") })).await?;
        self.transferred("saved").await
    }

    /// The way back, in a QEMU that was started to wait for it. The guest stands still.
    pub async fn load(&mut self, file: &str) -> Result<(), MonitorError> {
        self.leave_memory().await?;
        self.run("migrate-incoming", json!({ "uri": format!("file:{file}") })).await?;
        self.transferred("loaded").await
    }

    /// Lets the guest run.
    pub async fn go_on(&mut self) -> Result<(), MonitorError> {
        self.run("cont", Value::Null).await.map(drop)
    }

    async fn transferred(&mut self, what: &'static str) -> Result<(), MonitorError> {
        loop {
            let state = self.run("query-migrate", Value::Null).await?;
            match state["status"].as_str() {
                Some("completed") => return Ok(()),
                Some(status @ ("failed" | "cancelled")) => {
                    let problem = state["error-desc"].as_str().unwrap_or(status).into();
                    return Err(MonitorError::Transfer { what, problem });
                }
                _ => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Write};

    use super::*;

    /// A QEMU that answers each command with the next line.
    fn qemu(answers: &'static [&'static str]) -> (StdUnixStream, std::thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        let heard = std::thread::spawn(move || {
            let mut heard = Vec::new();
            let mut to = theirs.try_clone().unwrap();
            to.write_all(b"{\"QMP\": {}}\n").unwrap();
            let mut lines = std::io::BufReader::new(theirs).lines();
            for answer in answers {
                heard.push(lines.next().unwrap().unwrap());
                writeln!(to, "{answer}").unwrap();
            }
            heard
        });
        (ours, heard)
    }

    #[tokio::test]
    async fn events_are_no_answers() {
        let (socket, heard) = qemu(&[r#"{"return": {}}"#, "{\"event\": \"STOP\"}\n{\"return\": {\"a\": 1}}"]);
        let mut monitor = Monitor::new(socket).unwrap();
        assert_eq!(monitor.run("stop", Value::Null).await.unwrap(), json!({ "a": 1 }));
        assert_eq!(heard.join().unwrap()[1], r#"{"execute":"stop"}"#);
    }

    #[tokio::test]
    async fn a_refusal_and_an_end_are_told_apart() {
        let (socket, _) = qemu(&[r#"{"return": {}}"#, r#"{"error": {"desc": "no such thing"}}"#]);
        let mut monitor = Monitor::new(socket).unwrap();
        let refused = monitor.run("load", Value::Null).await.unwrap_err();
        assert_eq!(refused.to_string(), "QEMU refuses `load`: no such thing");
        assert!(monitor.run("load", Value::Null).await.is_err());
    }
}
