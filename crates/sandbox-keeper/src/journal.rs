use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How large `keeper.log` may grow, in bytes; then the older half goes.
const LIMIT: u64 = 256 * 1024;

/// `keeper.log`: one line per change, with its time. Shared with the process's stderr, so it is only ever
/// appended to, and shortened in place.
pub(crate) struct Journal {
    file: Option<File>,
}

/// Opens a log of mode 0600 for appending.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

impl Journal {
    /// A log that cannot be written is no reason to let a sandbox run for ever: it is left out then.
    pub fn new(path: &Path) -> Self {
        Self { file: open(path).ok() }
    }

    pub fn write(&mut self, text: &str) {
        let now = jiff::Timestamp::now();
        let line = format!("{} {}\n", now.strftime("%Y-%m-%dT%H:%M:%SZ"), text.replace('\n', " "));
        if let Some(file) = &mut self.file {
            let _ = file.write_all(line.as_bytes());
            let _ = shorten(file);
        }
    }
}

fn shorten(file: &mut File) -> std::io::Result<()> {
    let length = file.metadata()?.len();
    if length <= LIMIT {
        return Ok(());
    }
    let mut kept = Vec::new();
    file.seek(SeekFrom::Start(length - LIMIT / 2))?;
    file.read_to_end(&mut kept)?;
    let whole_lines = kept.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    file.set_len(0)?;
    file.write_all(&kept[whole_lines..])
}

/// The last lines of a log, for messages.
pub(crate) fn tail(path: &Path) -> String {
    const LINES: usize = 10;
    let mut text = String::new();
    if let Ok(mut file) = File::open(path) {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = Vec::new();
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(4096)));
        let _ = file.read_to_end(&mut bytes);
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_bounded_and_keeps_the_newest_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keeper.log");
        let mut journal = Journal::new(&path);
        for number in 0..10_000 {
            journal.write(&format!("line {number} {}", "x".repeat(60)));
            assert!(std::fs::metadata(&path).unwrap().len() <= LIMIT);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() as u64 > LIMIT / 4);
        assert!(text.starts_with("20"), "{}", &text[..40]);
        assert!(text.lines().all(|line| line.contains("Z line ")));
        assert!(tail(&path).lines().count() == 10 && tail(&path).contains("line 9999 "));
    }

    #[test]
    fn a_message_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keeper.log");
        Journal::new(&path).write("one\ntwo");
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
    }
}
