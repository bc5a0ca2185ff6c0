use std::path::Path;
use std::process::{Command, Stdio};

use fs_err as fs;
use sandbox_model::ByteSize;
use sandbox_runtime::RuntimeError;

/// The tools live in the system folders that an ordinary user's PATH often lacks.
const SYSTEM_FOLDERS: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// Makes an empty ext4 file system in a new sparse file. It is ours and not one that `msb` manages, because
/// it has to outlive a sandbox that `msb` makes anew with other settings.
pub fn make_root_disk(path: &Path, size: ByteSize) -> Result<(), RuntimeError> {
    fs::File::create(path)?.set_len(size.bytes())?;
    let output = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-m", "0", "-J", "size=16"])
        .args(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "--"])
        .arg(path)
        .env("PATH", format!("{}:{SYSTEM_FOLDERS}", std::env::var("PATH").unwrap_or_default()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| RuntimeError::MissingProgram {
            program: "mke2fs".into(),
            problem: error.to_string(),
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(RuntimeError::other(format!(
        "mke2fs could not make the root disk {}: {}",
        path.display(),
        said.trim()
    )))
}
