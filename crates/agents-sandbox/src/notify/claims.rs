use std::collections::HashMap;
use std::path::PathBuf;

use sandbox_lifecycle::Occasion;
use sandbox_state::{Lock, LockMode, StateError, make_private_dir};
use sha2::{Digest, Sha256};

/// Which of the clients of one sandbox tells what: the one that holds its lock, until the session works again.
#[derive(Debug)]
pub struct Claims {
    dir: PathBuf,
    held: HashMap<(String, Occasion), Lock>,
}

impl Claims {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, held: HashMap::new() }
    }

    /// Whether it is this client's to tell. Two are better than none, so a claim that cannot be made counts.
    pub fn take(&mut self, session: &str, occasion: Occasion) -> bool {
        let key = (session.to_string(), occasion);
        if self.held.contains_key(&key) {
            // It works again without our having heard it.
            return true;
        }
        // A guest's word does not become a name of a file.
        let name = hex::encode(&Sha256::digest(session)[..16]);
        let path = self.dir.join(format!("{name}.{occasion:?}").to_lowercase());
        if make_private_dir(&self.dir).is_err() {
            return true;
        }
        match Lock::try_take(&path, LockMode::Exclusive, "notify") {
            Ok(lock) => {
                self.held.insert(key, lock);
                true
            }
            Err(StateError::Held { .. }) => false,
            Err(_) => true,
        }
    }

    /// The next time is another one.
    pub fn release(&mut self, session: &str) {
        self.held.retain(|(held, _), _| held != session);
    }
}

#[cfg(test)]
mod tests {
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
