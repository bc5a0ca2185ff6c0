//! Who holds a lock, as the system tells it: every process that has the file open and a lock on it
//! (`proc_pid_fdinfo(5)`, the lines that begin with `lock:`).

use std::fs;
use std::path::Path;

use sandbox_state::{is_locked, read_holder};

/// `process 4711 (run)`, for each process of this user that holds a lock on the file: what it wrote there that it
/// does, or else its program and verb. Empty where the system does not tell, as of a process that knows secrets.
pub fn of(path: &Path) -> Vec<String> {
    let Ok(path) = path.canonicalize() else { return Vec::new() };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let mut pids: Vec<u32> = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| holds(*pid, &path))
        .collect();
    pids.sort_unstable();
    let written = read_holder(&path).to_string();
    let describe = |pid| if written.starts_with(&signature(pid)) { written.clone() } else { describe(pid) };
    pids.into_iter().map(describe).collect()
}

/// Whether the process holds a lock on the file.
pub fn holds(pid: u32, path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.filter_map(Result::ok).filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == path)).any(
        |entry| {
            let info = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
            fs::read_to_string(info).is_ok_and(|text| text.lines().any(|line| line.starts_with("lock:")))
        },
    )
}

/// Whether the lock's text says that the process holds it, exclusively.
pub fn signed(pid: u32, path: &Path) -> bool {
    read_holder(path).to_string().starts_with(&signature(pid)) && is_locked(path).unwrap_or(false)
}

/// How the text of whoever holds a lock exclusively begins.
fn signature(pid: u32) -> String {
    format!("process {pid} (")
}

/// The program and its verb; what else was typed may be long, and nobody's business.
fn describe(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = words.next().unwrap_or_default();
    let program = Path::new(program.as_ref()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let verb = words.next().filter(|word| !word.is_empty() && !word.starts_with('-'));
    match (program.as_str(), verb) {
        ("", _) => format!("process {pid}"),
        (program, None) => format!("process {pid} ({program})"),
        (program, Some(verb)) => format!("process {pid} ({program} {verb})"),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_state::{Lock, LockMode};

    use super::*;

    #[test]
    fn a_shared_holder_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        assert_eq!(of(&path), Vec::<String>::new());
        let lock = Lock::take(&path, LockMode::Shared, "test", |_| {}).unwrap();
        let me = format!("process {} (", std::process::id());
        assert!(of(&path).iter().any(|holder| holder.starts_with(&me)), "{:?}", of(&path));
        drop(lock);
        let _open_but_not_locked = fs::File::open(&path).unwrap();
        assert_eq!(of(&path), Vec::<String>::new());
    }

    #[test]
    fn an_exclusive_holder_signs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let me = std::process::id();
        assert!(!signed(me, &path));
        let lock = Lock::take(&path, LockMode::Exclusive, "test", |_| {}).unwrap();
        assert!(signed(me, &path) && !signed(me / 10, &path));
        assert_eq!(of(&path), [format!("process {me} (test)")]);
        drop(lock);
        assert!(!signed(me, &path), "the text of a former holder");
    }
}
