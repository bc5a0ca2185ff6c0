//! What others can see of a machine's life: its lock, the word in it, and why it ended.

use sandbox_model::Status;
use sandbox_runtime::RuntimeError;
use sandbox_state::{Lock, LockMode, StateError};

use crate::error::from_state;
use crate::files::MachineFiles;
use crate::record::life_word;

/// The life of this process, as others see it.
#[derive(Debug)]
pub struct Life {
    lock: Lock,
    files: MachineFiles,
}

impl Life {
    /// Takes the lock for as long as this process lives. `None` where a machine is alive already.
    pub fn begin(files: &MachineFiles) -> Result<Option<Self>, RuntimeError> {
        let lock = match Lock::try_take(&files.lock(), LockMode::Exclusive, "machine") {
            Ok(lock) => lock,
            Err(StateError::Held { .. }) => return Ok(None),
            Err(error) => return Err(from_state(error)),
        };
        let mut life = Self { lock, files: files.clone() };
        match fs_err::remove_file(files.problem()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        life.say(&Status::Starting);
        Ok(Some(life))
    }

    /// Where the word cannot be written the machine goes on: the lock is what counts.
    pub fn say(&mut self, status: &Status) {
        if let Err(error) = self.lock.write(&life_word(status)) {
            tracing::error!("cannot write the status {status}: {error}");
        }
    }

    /// The last word. `problem` says why the machine did not end as it was told to.
    pub fn end(mut self, problem: Option<&str>) {
        match problem {
            None => self.say(&Status::Stopped),
            Some(problem) => {
                tracing::error!("{problem}");
                if let Err(error) = fs_err::write(self.files.problem(), problem) {
                    tracing::error!("cannot write why: {error}");
                }
                self.say(&Status::Crashed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lives_at_a_time_and_keeps_its_word() {
        let dir = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(dir.path());
        let first = Life::begin(&files).unwrap().expect("nobody is alive");
        let word = || fs_err::read_to_string(files.lock()).unwrap();
        let before = word();
        assert!(Life::begin(&files).unwrap().is_none());
        assert_eq!(word(), before);
        first.end(None);
        assert!(Life::begin(&files).unwrap().is_some());
    }
}
