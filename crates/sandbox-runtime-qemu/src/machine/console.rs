//! The guest's console, and what a machine's parts say, kept as logs of bounded size: a guest that prints for ever, or
//! makes a part print, fills no disk.

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::UnixStream;
use tokio::process::ChildStderr;

/// One log and one older one of this size at most.
const LIMIT: u64 = 1 << 20;

/// Copies the console into `log` until QEMU ends. What is over the limit goes to `log.1`.
pub async fn record(socket: StdUnixStream, log: &Path) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    copy(UnixStream::from_std(socket)?, log, |_| Ok(())).await
}

/// Copies what a part says into the machine's log, which is this process's own stderr too, until the part ends.
pub async fn record_part(stderr: ChildStderr, log: &Path) -> std::io::Result<()> {
    copy(stderr, log, |file| Ok(rustix::stdio::dup2_stderr(file)?)).await
}

/// `begun` is told of each log that takes the place of a full one. What cannot be written, on a disk that is full, say,
/// is lost: whoever says it would wait for ever for somebody who reads it.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    log: &Path,
    begun: impl Fn(&File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut lost = false;
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        match append(log, &buffer[..count], &begun) {
            Ok(()) => lost = false,
            // Once for all that is lost in a row.
            Err(error) if !lost => {
                tracing::warn!("what is said is lost: {error}");
                lost = true;
            }
            Err(_) => {}
        }
    }
}

fn append(log: &Path, text: &[u8], begun: impl Fn(&File) -> std::io::Result<()>) -> std::io::Result<()> {
    // Others write to it as well, and may have put it aside.
    let mut file = open(log)?;
    if file.metadata()?.len() > LIMIT {
        fs_err::rename(log, log.with_extension("log.1"))?;
        file = open(log)?;
        begun(file.file())?;
    }
    file.write_all(text)
}

fn open(log: &Path) -> std::io::Result<fs_err::File> {
    fs_err::OpenOptions::new().create(true).append(true).open(log)
}

/// The last lines of a log, for an error; control characters are dropped because a guest wrote it.
pub fn tail(log: &Path, lines: usize) -> String {
    let bytes = fs_err::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(16 << 10)..]).into_owned();
    let plain: Vec<String> = text
        .lines()
        .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .collect();
    plain[plain.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn the_tail_is_short_and_without_control_codes() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("console.log");
        fs_err::write(&log, "one\r\ntwo \x1b[31mred\n\nthree\n").unwrap();
        assert_eq!(tail(&log, 2), "two [31mred\nthree");
        assert_eq!(tail(&dir.path().join("none"), 2), "");
    }

    #[tokio::test]
    async fn a_guest_that_prints_for_ever_fills_no_disk() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("console.log");
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            let mut theirs = theirs;
            for _ in 0..600 {
                theirs.write_all(&[b'x'; 10_000]).unwrap();
            }
        });
        record(ours, &log).await.unwrap();
        writer.join().unwrap();
        let size = |path: &Path| fs_err::metadata(path).unwrap().len();
        assert!(size(&log) + size(&log.with_extension("log.1")) < 3 * LIMIT);
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_lost_and_the_rest_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("not there yet");
        let log = folder.join("console.log");
        // It holds one word at a time: the second goes in once the first was taken out, and lost.
        let (ours, mut theirs) = tokio::io::duplex(4);
        let talk = async {
            theirs.write_all(b"lost").await.unwrap();
            theirs.write_all(b"kept").await.unwrap();
            fs_err::create_dir(&folder).unwrap();
            drop(theirs);
        };
        let (copied, ()) = tokio::join!(copy(ours, &log, |_| Ok(())), talk);
        copied.unwrap();
        assert_eq!(fs_err::read_to_string(&log).unwrap(), "kept");
    }

    #[tokio::test]
    async fn whoever_writes_to_a_full_log_is_told_of_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("machine.log");
        fs_err::write(&log, vec![b'o'; usize::try_from(LIMIT).unwrap() + 1]).unwrap();
        let told = std::cell::RefCell::new(Vec::new());
        let begun = |file: &File| -> std::io::Result<()> {
            told.borrow_mut().push(file.try_clone()?);
            Ok(())
        };
        copy(&b"a part's words\n"[..], &log, begun).await.unwrap();
        let mut own = told.into_inner().pop().unwrap();
        own.write_all(b"the machine's own\n").unwrap();
        assert_eq!(fs_err::read_to_string(&log).unwrap(), "a part's words\nthe machine's own\n");
        assert!(fs_err::metadata(log.with_extension("log.1")).unwrap().len() > LIMIT);
    }
}
