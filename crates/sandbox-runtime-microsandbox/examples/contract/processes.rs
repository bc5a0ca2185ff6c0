//! The machines of the private runtime, as processes.

use rustix::process::{Pid, Signal, kill_process};

/// Every `msb machine` process with its sandbox's name.
fn machines() -> Vec<(Pid, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            let machine = words.first()?.ends_with("/msb") && words.get(1)? == "machine";
            let at = words.iter().position(|word| word == "--name").filter(|_| machine)?;
            Some((pid, words.get(at + 1)?.to_string()))
        })
        .collect()
}

/// Kills the machine of one sandbox; false when there is none.
pub fn kill_machine(name: &str) -> bool {
    let found = machines().into_iter().find(|(_, machine)| machine == name);
    found.is_some_and(|(pid, _)| kill_process(pid, Signal::KILL).is_ok())
}

/// Kills every machine but the one of `spared`, and says how many.
pub fn end_machines(spared: Option<&str>) -> usize {
    let others = machines().into_iter().filter(|(_, name)| Some(name.as_str()) != spared);
    others.filter(|(pid, _)| kill_process(*pid, Signal::KILL).is_ok()).count()
}
