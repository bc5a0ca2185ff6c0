//! A disk, byte for byte, with its holes.

use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::path::Path;

use fs_err as fs;
use rustix::fs::{OFlags, SeekFrom as Place};
use rustix::io::Errno;

const BLOCK: usize = 1 << 20;

/// Copies a file that nobody writes to into a new one, and reads both again to compare them. Holes stay
/// holes. On a file system that can share blocks it shares them. `progress` gets bytes done.
pub fn copy(from: &Path, to: &Path, mut progress: impl FnMut(u64)) -> Result<()> {
    use fs_err::os::unix::fs::OpenOptionsExt;
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut source = fs::OpenOptions::new().read(true).custom_flags(no_link).open(from)?;
    let mut copy = fs::OpenOptions::new().read(true).write(true).create_new(true).open(to)?;
    if rustix::fs::ioctl_ficlone(copy.file(), source.file()).is_ok() {
        return Ok(());
    }
    copy.set_len(source.metadata()?.len())?;
    let mut done = 0;
    each_block(&mut source, |place, block| {
        // What is allocated and zero, such as a journal that was cleared, needs no space in the copy.
        if block.iter().any(|byte| *byte != 0) {
            copy.seek(SeekFrom::Start(place))?;
            copy.write_all(block)?;
        }
        done += block.len() as u64;
        progress(done);
        Ok(())
    })?;
    copy.sync_all()?;
    compare(&mut source, &mut copy)
}

fn compare(source: &mut fs::File, copy: &mut fs::File) -> Result<()> {
    let mut there = vec![0; BLOCK];
    each_block(source, |place, block| {
        copy.seek(SeekFrom::Start(place))?;
        copy.read_exact(&mut there[..block.len()])?;
        if there[..block.len()] == *block {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidData, format!("the copy differs from the original at byte {place}")))
    })
}

/// Visits what a file has between its holes, in blocks of at most [`BLOCK`] bytes.
fn each_block(file: &mut fs::File, mut visit: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let mut buffer = vec![0; BLOCK];
    let mut place = 0;
    loop {
        let begin = match rustix::fs::seek(file.file(), Place::Data(place)) {
            Ok(begin) => begin,
            // Nothing but a hole up to the end.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file.file(), Place::Hole(begin))?;
        file.seek(SeekFrom::Start(begin))?;
        place = begin;
        while place < end {
            let wanted = usize::try_from(end - place).unwrap_or(BLOCK).min(BLOCK);
            let count = file.read(&mut buffer[..wanted])?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            visit(place, &buffer[..count])?;
            place += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_copy_is_the_same_and_as_sparse() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let mut file = fs::File::create(&from).unwrap();
        file.set_len(8 << 30).unwrap();
        for place in [5_u64, (1 << 30) + 4097, (8 << 30) - 3] {
            file.seek(SeekFrom::Start(place)).unwrap();
            file.write_all(b"abc").unwrap();
        }
        copy(&from, &to, |_| {}).unwrap();
        let (before, after) = (fs::metadata(&from).unwrap(), fs::metadata(&to).unwrap());
        assert_eq!(before.len(), after.len());
        assert!(after.blocks() <= before.blocks(), "{} {}", before.blocks(), after.blocks());
        compare(&mut fs::File::open(&from).unwrap(), &mut fs::File::open(&to).unwrap()).unwrap();
        assert_eq!(copy(&from, &to, |_| {}).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_difference_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&a, vec![7; 3 * BLOCK]).unwrap();
        let mut other = vec![7; 3 * BLOCK];
        other[2 * BLOCK + 9] = 8;
        fs::write(&b, other).unwrap();
        let error = compare(&mut fs::File::open(&a).unwrap(), &mut fs::File::open(&b).unwrap()).unwrap_err();
        assert!(error.to_string().contains(&format!("byte {}", 2 * BLOCK)), "{error}");
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "x").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("a"), &link).unwrap();
        assert!(copy(&link, &dir.path().join("b"), |_| {}).is_err());
        copy(&dir.path().join("a"), &dir.path().join("b"), |_| {}).unwrap();
    }
}
