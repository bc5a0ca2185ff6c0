use std::path::Path;
use std::process::{Command, Stdio};

use fs_err as fs;
use sandbox_model::ByteSize;
use sandbox_runtime::RuntimeError;
use sandbox_state::find_system_tool;

use crate::full::no_room;

/// Makes an empty ext4 file system in a new sparse file, without mounting it and without root. Takes about 5 MB
/// whatever its size.
///
/// The root disk needs no journal against power loss of a machine that can be rebuilt, but a `kill` must
/// not cost the user the packages they installed: it keeps the journal, a small one.
pub fn make_root_disk(path: &Path, size: ByteSize) -> Result<(), RuntimeError> {
    fs::File::create(path)?.set_len(size.bytes())?;
    let missing = |error: std::io::Error| RuntimeError::MissingProgram {
        program: "mke2fs".into(),
        problem: error.to_string(),
    };
    let output = Command::new(find_system_tool("mke2fs").map_err(missing)?)
        .args(["-q", "-F", "-t", "ext4", "-m", "0", "-J", "size=16"])
        .args(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "--"])
        .arg(path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // The text of ENOSPC; the tool speaks the language that it is told to.
    if said.contains("No space left on device") {
        return Err(no_room(path));
    }
    Err(RuntimeError::other(format!(
        "mke2fs could not make the root disk {}: {}",
        path.display(),
        said.trim()
    )))
}
