use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The fake model provider of `tests/fake-provider`, on a port the system picked.
pub struct Provider {
    child: Child,
    pub port: u16,
    log: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Provider {
    pub fn start() -> Self {
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-provider/fake_provider.py");
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("provider.log");
        let mut child = Command::new("python3")
            .arg(program)
            .arg("0")
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the provider's port");
        Self { child, port, log, _scratch: scratch }
    }

    /// How many requests were answered in this way to a client that had tools.
    pub fn count(&self, kind: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let entries = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        entries.filter(|entry| entry["kind"] == kind && entry["tools"] != 0).count()
    }

    /// Ends every answer that hangs.
    pub fn release(&self) {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.write_all(b"POST /_release HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
