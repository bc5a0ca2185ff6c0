//! The guest program as a file that sandboxes can run.

use std::os::unix::fs::PermissionsExt;

use fs_err as fs;
use sandbox_runtime::RuntimeError;
use sandbox_state::make_private_dir;
use sha2::{Digest, Sha256};

use crate::error::from_state;
use crate::files::Files;

/// Puts `program` below the folder that every sandbox sees; the name of its own folder there. Old ones stay
/// for the programs that still run.
pub fn provide(files: &Files, program: &[u8]) -> Result<String, RuntimeError> {
    let id = hex::encode(&Sha256::digest(program)[..8]);
    let all = files.guest_programs();
    let dir = all.join(&id);
    let path = dir.join("sandbox-guest");
    if fs::metadata(&path).is_ok_and(|found| found.len() == program.len() as u64) {
        return Ok(id);
    }
    make_private_dir(&all).map_err(from_state)?;
    // Inside a guest the folder shows as root's, but the rights of others count there too.
    let readable = |path: &std::path::Path| {
        fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(RuntimeError::from)
    };
    readable(&all)?;
    make_private_dir(&dir).map_err(from_state)?;
    readable(&dir)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&dir)?;
    std::io::Write::write_all(&mut file, program)?;
    readable(file.path())?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use sandbox_state::MsbFiles;

    use super::*;

    #[test]
    fn each_program_has_a_folder_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files { home: MsbFiles { dir: dir.path().join("msb") } };
        let one = provide(&files, b"one").unwrap();
        let two = provide(&files, b"two").unwrap();
        assert_eq!(provide(&files, b"one").unwrap(), one);
        for (id, content) in [(&one, b"one"), (&two, b"two")] {
            let path = files.guest_programs().join(id).join("sandbox-guest");
            assert_eq!(fs::read(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        }
        let private = fs::metadata(files.records()).unwrap().permissions().mode() & 0o777;
        assert_eq!(private, 0o700);
    }
}
