//! Words that change with a value, and tell nothing about it without the user's own key.

use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use fs_err as fs;
use sandbox_model::SecretValue;
use sandbox_state::{Layout, write_private_once};
use sha2::{Digest, Sha256};

const LENGTH: usize = 32;

/// The user's key, made when there is none.
pub fn key(layout: &Layout) -> io::Result<[u8; LENGTH]> {
    let path = layout.secret_key();
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    let mut key = [0; LENGTH];
    fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    // The first of two that come at once.
    if write_private_once(&path, &key).map_err(io::Error::other)? {
        return Ok(key);
    }
    read(&path)?.ok_or_else(|| io::Error::other("it came and went"))
}

fn read(path: &std::path::Path) -> io::Result<Option<[u8; LENGTH]>> {
    let mut bytes = Vec::new();
    match std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
    {
        Ok(file) => file.take(LENGTH as u64 + 1).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let key =
        bytes.try_into().map_err(|_| io::Error::other("it is no key; remove it, and a new one is made"))?;
    Ok(Some(key))
}

/// 32 hex digits. Hashed twice, as an HMAC is, so that nobody who knows one value's fingerprint can tell that of a
/// value which continues it. The key is as long as the hash and needs no padding of its own; to become an HMAC now
/// would make every secret a changed one, once.
pub fn fingerprint(key: &[u8; LENGTH], name: &str, value: &SecretValue) -> String {
    let inner =
        Sha256::new().chain_update(key).chain_update(name).chain_update([0]).chain_update(value.reveal());
    let outer = Sha256::new().chain_update(key).chain_update(inner.finalize()).finalize();
    hex::encode(outer)[..32].to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use sandbox_state::Environment;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_fingerprints_hang_on_it() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment { home: Some(home.path().into()), ..Environment::default() };
        let layout = Layout::new(&environment).unwrap();
        let first = key(&layout).unwrap();
        assert_eq!(key(&layout).unwrap(), first);
        let mode = std::fs::metadata(layout.secret_key()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let print = |key, name, value: &str| fingerprint(key, name, &SecretValue::new(value.into()));
        assert_eq!(print(&first, "A", "x"), print(&first, "A", "x"));
        assert_ne!(print(&first, "A", "x"), print(&first, "A", "y"));
        assert_ne!(print(&first, "A", "x"), print(&first, "B", "x"));
        assert_ne!(print(&first, "A", "x"), print(&[7; LENGTH], "A", "x"));
        std::fs::write(layout.secret_key(), "short").unwrap();
        assert!(key(&layout).unwrap_err().to_string().contains("it is no key"));
    }
}
