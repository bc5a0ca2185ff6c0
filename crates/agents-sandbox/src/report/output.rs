use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where results go: stdout, unless the user wants none.
#[derive(Debug)]
pub struct Output {
    quiet: AtomicBool,
}

impl Output {
    pub const fn new(quiet: bool) -> Self {
        Self { quiet: AtomicBool::new(quiet) }
    }

    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// A text and a line break. Colours in it are dropped where stdout takes none.
    pub fn line(&self, text: &str) -> io::Result<()> {
        if self.is_quiet() {
            return Ok(());
        }
        // One write, so that lines of programs side by side do not mix.
        let mut stdout = anstream::AutoStream::auto(io::stdout().lock());
        stdout.write_all(format!("{text}\n").as_bytes())?;
        stdout.flush()
    }

    /// A document, byte for byte.
    pub fn bytes(&self, document: &[u8]) -> io::Result<()> {
        if self.is_quiet() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(document)?;
        stdout.flush()
    }

    /// A value as JSON, indented by two.
    pub fn json(&self, value: &impl serde::Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.bytes(&text)
    }
}
