use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The fake model provider of `tests/fake-provider`, on a port the system picked.
pub struct Provider {
    child: Child,
    pub port: u16,
    log: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Provider {
    pub fn start() -> Self {
        Self::spawn(None)
    }

    /// One that refuses whoever does not have this key.
    pub fn with_key(key: &str) -> Self {
        Self::spawn(Some(key))
    }

    fn spawn(key: Option<&str>) -> Self {
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-provider/fake_provider.py");
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("provider.log");
        let mut command = Command::new("python3");
        command.arg(program).arg("0").arg(&log);
        if let Some(key) = key {
            let file = scratch.path().join("key");
            std::fs::write(&file, key).unwrap();
            command.arg(file);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python3");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the provider's port");
        Self { child, port, log, _scratch: scratch }
    }

    /// How many requests were answered in this way to a client that had tools.
    pub fn count(&self, kind: &str) -> usize {
        let entries = self.entries();
        entries.iter().filter(|entry| entry["kind"] == kind && entry["tools"] != 0).count()
    }

    /// The headers with a key, of each request so far.
    pub fn keys(&self) -> Vec<Value> {
        self.entries().into_iter().map(|mut entry| entry["key"].take()).collect()
    }

    fn entries(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Ends every answer that hangs.
    pub fn release(&self) {
        assert_eq!(self.post("/_release", ""), 200);
    }

    /// What it answers to someone with this key.
    pub fn status(&self, key: &str) -> u16 {
        self.post("/v1/chat/completions", &format!("authorization: Bearer {key}\r\n"))
    }

    fn post(&self, path: &str, header: &str) -> u16 {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{header}content-length: 0\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).unwrap();
        line.split(' ').nth(1).expect("a status").parse().unwrap()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
