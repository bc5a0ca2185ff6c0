use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Take};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// What a link at the very end of a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// Followed, as those before it.
    Followed,
    /// An error: it was none when it was looked at.
    Refused,
}

/// The whole of a regular file of at most `most` bytes.
///
/// A pipe in its place does not make the caller wait, and an endless device does not fill its memory.
pub fn read_bytes(path: &Path, link: LastLink, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = open(path, link, most)?.read_to_end(&mut bytes)?;
    check(length, most).map(|()| bytes)
}

/// [`read_bytes`] of what must be UTF-8.
pub fn read_text(path: &Path, link: LastLink, most: u64) -> Result<String> {
    let mut text = String::new();
    let length = open(path, link, most)?.read_to_string(&mut text)?;
    check(length, most).map(|()| text)
}

fn open(path: &Path, link: LastLink, most: u64) -> Result<Take<File>> {
    let flags = match link {
        LastLink::Followed => OFlags::NONBLOCK,
        LastLink::Refused => OFlags::NONBLOCK | OFlags::NOFOLLOW,
    };
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file.take(most + 1))
}

fn check(length: usize, most: u64) -> Result<()> {
    if length as u64 <= most {
        return Ok(());
    }
    let most = if most < 1 << 20 { format!("{} KiB", most >> 10) } else { format!("{} MiB", most >> 20) };
    Err(Error::new(ErrorKind::FileTooLarge, format!("larger than {most}")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, mkfifoat};

    use super::*;

    #[test]
    fn only_a_small_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let text = |link| read_text(&path, link, 4 << 10).map_err(|error| error.to_string());
        fs::write(&path, "word\n").unwrap();
        assert_eq!(text(LastLink::Refused), Ok("word\n".into()));
        assert_eq!(read_bytes(&path, LastLink::Refused, 5).unwrap(), b"word\n");
        fs::write(&path, vec![b'#'; (4 << 10) + 1]).unwrap();
        assert_eq!(text(LastLink::Followed), Err("larger than 4 KiB".into()));
        fs::write(&path, [0xff]).unwrap();
        assert!(text(LastLink::Followed).is_err());
        fs::remove_file(&path).unwrap();
        mkfifoat(CWD, &path, 0o600.into()).unwrap();
        assert_eq!(text(LastLink::Followed), Err("not a regular file".into()));
        assert!(read_text(dir.path(), LastLink::Followed, 1).is_err(), "a folder");
        assert!(read_bytes(Path::new("/dev/zero"), LastLink::Followed, 1).is_err(), "an endless device");
    }

    #[test]
    fn a_link_at_the_end_is_followed_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "word").unwrap();
        symlink("real", &link).unwrap();
        assert_eq!(read_text(&link, LastLink::Followed, 100).unwrap(), "word");
        assert!(read_text(&link, LastLink::Refused, 100).is_err());
        assert_eq!(read_text(&real, LastLink::Refused, 100).unwrap(), "word");
    }
}
