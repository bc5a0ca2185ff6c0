use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_lifecycle::Occasion;
use sandbox_state::{Lock, LockMode, StateError, make_private_dir};
use sha2::{Digest, Sha256};

/// Of one client, which holds a file open for each.
const MOST: usize = 64;

/// Which of the clients of one sandbox tells what: the one that holds its lock, until the session works again.
#[derive(Debug)]
pub struct Claims {
    dir: PathBuf,
    /// The oldest first.
    held: VecDeque<Claim>,
}

#[derive(Debug)]
struct Claim {
    session: String,
    occasion: Occasion,
    lock: Lock,
}

impl Claim {
    /// The file goes while its lock is held: whoever waits for it looks whether it is still there.
    fn end(self) {
        let _ = fs::remove_file(self.lock.path());
    }
}

impl Claims {
    /// Clears away what clients that are gone had claimed.
    pub fn new(dir: PathBuf) -> Self {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file())
                && let Ok(lock) = lock(&entry.path())
            {
                let _ = fs::remove_file(lock.path());
            }
        }
        Self { dir, held: VecDeque::new() }
    }

    /// Whether it is this client's to tell. Two are better than none, so a claim that cannot be made counts.
    pub fn take(&mut self, session: &str, occasion: Occasion) -> bool {
        if self.held.iter().any(|claim| claim.session == session && claim.occasion == occasion) {
            // It works again without our having heard it.
            return true;
        }
        // A guest's word does not become a name of a file.
        let name = hex::encode(&Sha256::digest(session)[..16]);
        let path = self.dir.join(format!("{name}.{occasion:?}").to_lowercase());
        if make_private_dir(&self.dir).is_err() {
            return true;
        }
        match lock(&path) {
            Ok(lock) => {
                if self.held.len() == MOST
                    && let Some(oldest) = self.held.pop_front()
                {
                    oldest.end();
                }
                self.held.push_back(Claim { session: session.into(), occasion, lock });
                true
            }
            Err(StateError::Held { .. }) => false,
            Err(_) => true,
        }
    }

    /// The next time is another one.
    pub fn release(&mut self, session: &str) {
        let claims = std::mem::take(&mut self.held).into_iter();
        let (ended, held): (VecDeque<_>, _) = claims.partition(|claim| claim.session == session);
        self.held = held;
        ended.into_iter().for_each(Claim::end);
    }
}

/// The lock of the file that is there, and not of one that its last holder has just removed.
fn lock(path: &Path) -> Result<Lock, StateError> {
    loop {
        let lock = Lock::try_take(path, LockMode::Exclusive, "notify")?;
        let own = rustix::fs::fstat(lock.as_fd()).map_err(std::io::Error::from)?;
        if fs::metadata(path).is_ok_and(|there| there.ino() == own.st_ino && there.dev() == own.st_dev) {
            return Ok(lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn one_of_two_tells_until_the_session_works_again() {
        let dir = tempfile::tempdir().unwrap();
        let [mut one, mut two] = [(); 2].map(|()| Claims::new(dir.path().join("claims")));
        assert!(one.take("ses_1", Occasion::Done));
        assert!(!two.take("ses_1", Occasion::Done));
        assert!(two.take("ses_1", Occasion::Input), "another occasion");
        assert!(two.take("../../ses_2", Occasion::Done), "another session");
        one.release("ses_1");
        assert!(two.take("ses_1", Occasion::Done));
        drop(two);
        assert!(one.take("ses_1", Occasion::Done), "a client that is gone claims nothing");
    }

    #[test]
    fn claims_leave_no_files_behind() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("claims");
        let files = || std::fs::read_dir(&place).unwrap().count();
        let mut one = Claims::new(place.clone());
        for number in 0..3 * MOST {
            assert!(one.take(&format!("ses_{number}"), Occasion::Done));
        }
        assert_eq!(files(), MOST, "the newest are kept");
        let last = format!("ses_{}", 3 * MOST - 1);
        one.release(&last);
        assert_eq!(files(), MOST - 1);
        let mut two = Claims::new(place.clone());
        assert_eq!(files(), MOST - 1, "those of a client that lives stay");
        assert!(!two.take(&format!("ses_{}", 3 * MOST - 2), Occasion::Done));
        assert!(two.take(&last, Occasion::Done));
        drop((one, two));
        Claims::new(place.clone());
        assert_eq!(files(), 0, "those of clients that are gone");
    }

    #[test]
    fn what_is_cleared_away_is_no_claim_that_was_made_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("claims");
        let mut claims = Claims::new(place.clone());
        assert!(claims.take("ses_1", Occasion::Done));
        let file = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
        claims.release("ses_1");
        let (done, mut lost) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    Claims::new(place.clone());
                }
            });
            for _ in 0..5_000 {
                // Whoever clears away has it for a moment.
                if claims.take("ses_1", Occasion::Done) {
                    lost += usize::from((0..20).any(|_| !file.exists()));
                    claims.release("ses_1");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(lost, 0, "claims that were held and whose files went");
    }

    /// What is told twice is better than what nobody tells, and nothing is cleared away.
    #[test]
    fn a_broken_claim_silences_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("claims");
        std::fs::write(&place, "no folder").unwrap();
        assert!(Claims::new(place.clone()).take("ses_1", Occasion::Done));
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "no folder");
        std::fs::remove_file(&place).unwrap();
        assert!(Claims::new(place.clone()).take("ses_1", Occasion::Done));
        let claim = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
        std::fs::remove_file(&claim).unwrap();
        std::fs::create_dir(&claim).unwrap();
        assert!(Claims::new(place).take("ses_1", Occasion::Done));
        assert!(claim.is_dir());
    }
}
