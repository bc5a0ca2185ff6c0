//! The guest's memory itself: anonymous memory of the host while the guest runs, a file while it sleeps.
//!
//! A file in the guest's place would be simpler, and was: the host's kernel then writes every page the guest
//! touches to the disk again and again, and traps the guest's next write to it. A JavaScript heap of 300 MB
//! had 1.2 GB written in a minute, and took a quarter longer.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use serde::{Deserialize, Serialize};

/// The name in `/proc/<pid>/fd`, for people who wonder, and for [`Held::take`].
const NAME: &str = "agents-sandbox-ram";
const PAGE: usize = 4096;
/// What is copied in one go fits into a core's own cache.
const PIECE: usize = 128 << 10;
/// More threads than this wait for the memory, not for each other.
const MOST_THREADS: usize = 4;

/// Memory of `bytes`, all zeros, that costs nothing before it is written to.
pub fn new_ram(bytes: u64) -> io::Result<File> {
    let ram = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC)?);
    ram.set_len(bytes)?;
    Ok(ram)
}

/// Bytes of the host's memory (or of the disk) that a file takes.
pub fn taken(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.blocks() * 512)
}

/// The memory of a sleeping machine, in the hands of the process that writes it to the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// It has the memory as its standard input.
    pid: u32,
    device: u64,
    inode: u64,
}

impl Held {
    /// `ram` is what process `pid` has as its standard input.
    pub fn new(pid: u32, ram: &File) -> io::Result<Self> {
        let found = ram.metadata()?;
        Ok(Self { pid, device: found.dev(), inode: found.ino() })
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/0", self.pid)
    }

    fn is(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }

    /// Whether that process still has the memory.
    pub fn is_there(&self) -> bool {
        fs_err::metadata(self.path()).is_ok_and(|found| self.is(&found))
    }

    /// The memory, if that process still has it.
    pub fn take(&self) -> io::Result<File> {
        let path = self.path();
        let gone = || io::Error::other("the process that wrote it to the disk ended before it was done");
        // The number may be another process's by now: nothing of that one is opened.
        let link = fs_err::read_link(&path).map_err(|_| gone())?;
        if !link.to_string_lossy().starts_with(&format!("/memfd:{NAME}")) {
            return Err(gone());
        }
        let ram = fs_err::OpenOptions::new().read(true).write(true).open(&path)?.into_parts().0;
        if self.is(&ram.metadata()?) { Ok(ram) } else { Err(gone()) }
    }
}

/// Where the next data of `file` from `at` begins and ends; `None` after the last.
fn extent(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(start) => Ok(Some((start, seek(file, SeekFrom::Hole(start))?))),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Copies what is not zero in `from..to` to the same places of `target`, where there are only zeros yet.
/// Returns early, with `false`, when `go_on` says so; it is asked before every few megabytes.
pub fn copy(
    source: &File,
    target: &File,
    from: u64,
    to: u64,
    go_on: &dyn Fn() -> io::Result<bool>,
) -> io::Result<bool> {
    const ASK_AFTER: u64 = 8 << 20;
    let mut buffer = vec![0; PIECE];
    let (mut at, mut asked) = (from, None);
    while let Some((start, end)) = extent(source, at)?.filter(|(start, _)| *start < to) {
        at = start;
        while at < end.min(to) {
            if asked.is_none_or(|asked| at >= asked + ASK_AFTER) {
                asked = Some(at);
                if !go_on()? {
                    return Ok(false);
                }
            }
            let length = usize::try_from(end.min(to) - at).unwrap_or(PIECE).min(PIECE);
            let count = source.read_at(&mut buffer[..length], at)?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            for (offset, length) in filled(&buffer[..count]) {
                target.write_all_at(&buffer[offset..offset + length], at + offset as u64)?;
            }
            at += count as u64;
        }
    }
    Ok(true)
}

/// Fills new memory with what `file` has; several threads share the work.
pub fn fill(ram: &File, file: &File) -> io::Result<()> {
    let size = file.metadata()?.len();
    if size != ram.metadata()?.len() {
        return Err(io::Error::other("it has another size than the machine's memory"));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS) as u64;
    let share = size.div_ceil(threads).next_multiple_of(PAGE as u64);
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| scope.spawn(move || copy_share(file, ram, part * share, (part + 1) * share)))
            .collect();
        parts.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|_| Err(io::Error::other("a copying thread panicked")))
        })
    })
}

/// Through a descriptor of its own: looking for data moves a descriptor's place.
fn copy_share(file: &File, ram: &File, from: u64, to: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let own = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    copy(&own, ram, from, to, &|| Ok(true)).map(drop)
}

/// Runs of whole pages that hold something: offset and length. A last page may be short.
fn filled(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, page) in bytes.chunks(PAGE).enumerate() {
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        let offset = index * PAGE;
        match runs.last_mut() {
            Some((start, length)) if *start + *length == offset => *length += page.len(),
            _ => runs.push((offset, page.len())),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_to_the_disk_and_back_and_zeros_cost_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let ram = new_ram(64 << 20).unwrap();
        ram.write_all_at(&vec![0; 20 << 20], 0).unwrap();
        for at in [3, 7 << 20, (7 << 20) + 5000, (33 << 20) - 1, (64 << 20) - 1] {
            ram.write_all_at(&[9], at).unwrap();
        }
        let path = dir.path().join("memory");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        assert!(copy(&ram, &file, 0, 64 << 20, &|| Ok(true)).unwrap());
        file.sync_all().unwrap();
        assert!(taken(&file).unwrap() <= 256 << 10, "{}", taken(&file).unwrap());
        let back = new_ram(64 << 20).unwrap();
        fill(&back, &file).unwrap();
        let read = |file: &File| {
            let mut all = vec![0; 64 << 20];
            file.read_exact_at(&mut all, 0).unwrap();
            all
        };
        assert!(read(&ram) == read(&back));
        assert!(fill(&new_ram(1 << 20).unwrap(), &file).is_err());
    }

    #[test]
    fn a_copy_that_is_not_wanted_any_more_ends() {
        let ram = new_ram(64 << 20).unwrap();
        ram.write_all_at(&vec![1; 64 << 20], 0).unwrap();
        let target = tempfile::tempfile().unwrap();
        let asked = std::cell::Cell::new(0);
        let twice = || {
            asked.set(asked.get() + 1);
            Ok(asked.get() < 3)
        };
        assert!(!copy(&ram, &target, 0, 64 << 20, &twice).unwrap());
        assert_eq!(asked.get(), 3);
        assert!(target.metadata().unwrap().len() < 32 << 20);
    }

    #[test]
    fn held_memory_is_taken_from_its_holder_and_from_nobody_else() {
        use std::process::{Command, Stdio};
        let ram = new_ram(1 << 20).unwrap();
        ram.write_all_at(b"mine", 0).unwrap();
        let sleeping =
            |stdin: File| Command::new("sleep").arg("600").stdin(Stdio::from(stdin)).spawn().unwrap();
        let mut holder = sleeping(ram.try_clone().unwrap());
        let held = Held::new(holder.id(), &ram).unwrap();
        let mut word = [0; 4];
        held.take().unwrap().read_exact_at(&mut word, 0).unwrap();
        assert_eq!(&word, b"mine");
        assert!(held.is_there());
        let mut other = sleeping(new_ram(1 << 20).unwrap());
        let mut third = sleeping(tempfile::tempfile().unwrap());
        for pid in [other.id(), third.id()] {
            let elsewhere = Held { pid, ..held.clone() };
            assert!(elsewhere.take().is_err() && !elsewhere.is_there());
        }
        for child in [&mut holder, &mut other, &mut third] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!held.is_there());
        assert!(held.take().unwrap_err().to_string().contains("ended before"));
    }

    #[test]
    fn runs_are_whole_pages() {
        let mut bytes = vec![1; 4 * PAGE + 100];
        bytes[2 * PAGE..3 * PAGE].fill(0);
        assert_eq!(filled(&bytes), [(0, 2 * PAGE), (3 * PAGE, PAGE + 100)]);
        assert_eq!(filled(&[0; PAGE]), []);
    }
}
