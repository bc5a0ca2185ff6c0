use std::io::{self, Write};

/// Where results go: stdout, unless the user wants none.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub quiet: bool,
}

impl Output {
    /// A text and a line break. Colours in it are dropped where stdout takes none.
    pub fn line(self, text: &str) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        // One write, so that lines of programs side by side do not mix.
        let mut stdout = anstream::AutoStream::auto(io::stdout().lock());
        stdout.write_all(format!("{text}\n").as_bytes())?;
        stdout.flush()
    }

    /// A document, byte for byte.
    pub fn bytes(self, document: &[u8]) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(document)?;
        stdout.flush()
    }

    /// A value as JSON, indented by two.
    pub fn json(self, value: &impl serde::Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.bytes(&text)
    }
}
