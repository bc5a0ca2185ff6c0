use std::fmt;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use fs_err as fs;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::{StateError, crash, make_private_dir};

/// Who else may hold a lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Whoever takes it shared as well; the file does not say who they are.
    Shared,
    /// Nobody. The holder's process and purpose are written into the file.
    Exclusive,
}

/// A held lock on a whole file. It ends with this value, or with the process, however that dies.
///
/// It is an "open file description" lock (`fcntl(2)`, `F_OFD_SETLK`): like `flock` it belongs to the open
/// file and not to the process, but unlike `flock` it can be asked about without being taken, so that a
/// `list` never gets in the way of a start.
#[derive(Debug)]
pub struct Lock {
    file: fs::File,
}

/// Who holds a lock, as its holder wrote it: `process 4711 (run)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder(String);

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("another process") } else { f.write_str(&self.0) }
    }
}

fn open(path: &Path) -> Result<fs::File, StateError> {
    if let Some(dir) = path.parent() {
        make_private_dir(dir)?;
    }
    let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    file.map_err(|error| match error.kind() {
        std::io::ErrorKind::IsADirectory => {
            let problem = "a folder is in the place of a lock".into();
            StateError::Malformed { path: path.into(), problem }
        }
        _ => error.into(),
    })
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

impl LockMode {
    fn request(self) -> libc::flock {
        whole_file(match self {
            Self::Shared => libc::F_RDLCK,
            Self::Exclusive => libc::F_WRLCK,
        })
    }
}

impl Lock {
    /// Takes the lock if it is free; `Err(Held)` names the holder.
    ///
    /// `purpose` is a verb for whoever waits (`run`, `machine`); it and the process id are written into
    /// the file of an exclusive lock.
    pub fn try_take(path: &Path, mode: LockMode, purpose: &str) -> Result<Self, StateError> {
        let file = open(path)?;
        match fcntl(file.file().as_fd(), FcntlArg::F_OFD_SETLK(&mode.request())) {
            Ok(_) => Self { file }.signed(mode, purpose),
            Err(Errno::EAGAIN | Errno::EACCES) => {
                Err(StateError::Held { path: path.into(), holder: read_holder(path).to_string() })
            }
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }

    /// Takes the lock, waiting as long as it takes; `waiting` is called once, with the holder, when it
    /// has to wait.
    pub fn take(
        path: &Path,
        mode: LockMode,
        purpose: &str,
        waiting: impl FnOnce(&LockHolder),
    ) -> Result<Self, StateError> {
        match Self::try_take(path, mode, purpose) {
            Err(StateError::Held { .. }) => {}
            other => return other,
        }
        waiting(&read_holder(path));
        Self::wait(open(path)?, mode, purpose)
    }

    /// [`Lock::take`] of a file that is there; `None` where it is not. Makes nothing, so that whoever comes
    /// late does not make a folder again that was removed.
    pub fn take_existing(path: &Path, mode: LockMode, purpose: &str) -> Result<Option<Self>, StateError> {
        let file = match fs::OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Self::wait(file, mode, purpose).map(Some)
    }

    fn wait(file: fs::File, mode: LockMode, purpose: &str) -> Result<Self, StateError> {
        loop {
            match fcntl(file.file().as_fd(), FcntlArg::F_OFD_SETLKW(&mode.request())) {
                Ok(_) => return Self { file }.signed(mode, purpose),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
    }

    fn signed(mut self, mode: LockMode, purpose: &str) -> Result<Self, StateError> {
        crash::point("a lock is held");
        if mode == LockMode::Exclusive {
            match self.write(&format!("process {} ({purpose})", std::process::id())) {
                // The lock is what counts. On a full disk it is what lets a sandbox be ended and removed.
                Err(StateError::Io(error)) if is_full(&error) => {}
                other => other?,
            }
        }
        Ok(self)
    }

    /// Replaces the text that others read while the lock is held.
    pub fn write(&mut self, text: &str) -> Result<(), StateError> {
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)?;
        Ok(())
    }

    /// The descriptor, for a child that shall share the lock's life.
    pub fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.file().as_fd()
    }

    /// The file that is locked. It stays when the lock ends.
    pub fn path(&self) -> PathBuf {
        self.file.path().into()
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// Whether anyone holds the lock, in either mode, without taking it. A missing file is free.
pub fn is_locked(path: &Path) -> Result<bool, StateError> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let mut answer = whole_file(libc::F_WRLCK);
    fcntl(file.file().as_fd(), FcntlArg::F_OFD_GETLK(&mut answer)).map_err(std::io::Error::from)?;
    Ok(libc::c_int::from(answer.l_type) != libc::F_UNLCK)
}

/// What the last exclusive holder wrote. Only true while the lock is held.
pub fn read_holder(path: &Path) -> LockHolder {
    let mut text = String::new();
    if let Ok(file) = fs::File::open(path) {
        // A holder that died while writing leaves a half word; it is only shown to people.
        let _ = file.take(200).read_to_string(&mut text);
    }
    LockHolder(text.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_lock_keeps_others_out_and_says_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let lock = Lock::try_take(&path, LockMode::Exclusive, "test").unwrap();
        assert!(is_locked(&path).unwrap());
        let error = Lock::try_take(&path, LockMode::Shared, "other").unwrap_err().to_string();
        assert!(error.contains(&format!("process {} (test)", std::process::id())), "{error}");
        drop(lock);
        assert!(!is_locked(&path).unwrap());
        let _shared = Lock::try_take(&path, LockMode::Shared, "other").unwrap();
        let _second = Lock::try_take(&path, LockMode::Shared, "other").unwrap();
        assert!(is_locked(&path).unwrap());
    }

    #[test]
    fn asking_never_keeps_a_taker_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    is_locked(&path).unwrap();
                }
            });
            for _ in 0..2_000 {
                Lock::try_take(&path, LockMode::Exclusive, "taker").unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn waiting_is_announced_and_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let lock = Lock::try_take(&path, LockMode::Exclusive, "first").unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Lock::take(&path, LockMode::Exclusive, "second", |holder| {
                    sender.send(holder.to_string()).unwrap();
                })
                .unwrap()
            });
            assert!(receiver.recv().unwrap().contains("(first)"));
            drop(lock);
        });
    }
}
