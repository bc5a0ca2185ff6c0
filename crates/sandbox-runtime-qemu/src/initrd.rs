//! The initrd: the guest program and nothing else, packed by the build script.

use std::path::{Path, PathBuf};

use sandbox_state::StateError;

const INITRD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/initrd.cpio"));

/// The initrd as a file in `boot_dir`, written once per content.
pub fn initrd(boot_dir: &Path) -> Result<PathBuf, StateError> {
    let path = boot_dir.join(concat!("initrd-", env!("INITRD_ID"), ".cpio"));
    if fs_err::metadata(&path).is_ok_and(|found| found.len() == INITRD.len() as u64) {
        return Ok(path);
    }
    sandbox_state::write_private(&path, INITRD)?;
    Ok(path)
}

/// The guest program itself, a static binary: other runtimes put it into their guests too.
pub fn guest_program() -> &'static [u8] {
    const fn number(digits: &str) -> usize {
        let (bytes, mut value, mut index) = (digits.as_bytes(), 0, 0);
        while index < bytes.len() {
            value = value * 10 + (bytes[index] - b'0') as usize;
            index += 1;
        }
        value
    }
    const START: usize = number(env!("GUEST_START"));
    &INITRD[START..START + number(env!("GUEST_LENGTH"))]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_guest_program_is_one() {
        let program = super::guest_program();
        assert!(program.starts_with(b"\x7fELF"));
        assert!(program.len() > 100_000);
    }
}
