//! The lab itself: one QEMU, told nothing, listened to until it ends.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::base::Base;
use super::steps::{Outcome, text};

/// Longer than every case together takes on two busy cores.
const DEADLINE: Duration = Duration::from_mins(90);
/// Each case has a deadline of its own, so nothing is silent for longer.
const SILENCE: Duration = Duration::from_mins(15);
const MEMORY_MIB: &str = "4096";

/// What came of the cases of one machine, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    pub passed: u32,
    pub failed: u32,
}

impl std::iter::Sum for Verdict {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            passed: sum.passed + one.passed,
            failed: sum.failed + one.failed,
        })
    }
}

/// Boots the machine called `name`, echoes what its cases say, and adds up their closing lines, of which
/// there must be `closing`.
pub fn run(lab: &Path, name: &str, base: &Base, inputs: &Path, closing: usize) -> Outcome<Verdict> {
    let drive = |path: &Path, more: &str| format!("file={},if=virtio,format=raw{more}", path.display());
    println!("==> machine `{name}`: QEMU with an emulated processor");
    let mut qemu = Command::new("qemu-system-x86_64");
    // One processor, one thread: where two translate code that a third rewrites, as kernels do with their own
    // while they run, QEMU before 8.0 may keep the old bytes, and a kernel of the lab or of a sandbox dies.
    // Nor may its clock count instructions (`-icount`): a guest of its guest that halts then halts everything.
    qemu.args(["-M", "q35", "-cpu", "max,+svm", "-accel", "tcg,thread=single", "-m", MEMORY_MIB])
        .args(["-smp", "1", "-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio"])
        .arg("-kernel")
        .arg(&base.kernel)
        .arg("-initrd")
        .arg(&base.initrd)
        .args(["-drive", &drive(&base.disk, ",snapshot=on"), "-drive", &drive(inputs, ",cache=unsafe")])
        .args(["-append", "console=ttyS0 quiet root=/dev/vda rw init=/lab-init panic=-1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = qemu.spawn().map_err(|error| format!("qemu-system-x86_64: {error}"))?;
    let mut log = File::create(lab.join(format!("serial-{name}.log"))).map_err(|error| text(&error))?;
    let (sender, lines) = channel();
    let serial = child.stdout.take().ok_or("QEMU has no output")?;
    std::thread::spawn(move || {
        for line in BufReader::new(serial).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_string()).is_err() {
                return;
            }
        }
    });
    let began = Instant::now();
    let mut verdicts = Vec::new();
    let outcome = loop {
        let left = DEADLINE.saturating_sub(began.elapsed());
        match lines.recv_timeout(left.min(SILENCE)) {
            Ok(line) => {
                writeln!(log, "{line}").map_err(|error| text(&error))?;
                if is_of_the_cases(&line) {
                    println!("    {name}: {line}");
                }
                verdicts.extend(verdict(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) => break Err(format!("machine `{name}` was silent for too long")),
        }
    };
    // It has ended by itself, or must.
    let _ = child.kill();
    let _ = child.wait();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    println!("    {name}: {:.0} s; load average of the host {load}", began.elapsed().as_secs_f64());
    outcome?;
    if verdicts.len() != closing {
        return Err(format!(
            "machine `{name}` ended after {} of {closing} closing lines; its console tells why",
            verdicts.len()
        ));
    }
    Ok(verdicts.into_iter().sum())
}

/// The firmware clears the screen, and the kernel has its own to say.
fn is_of_the_cases(line: &str) -> bool {
    ["pass ", "FAIL ", "     ", "lab: ", "error: ", "bench: "].iter().any(|begin| line.contains(begin))
        && !line.starts_with('[')
}

/// `N passed, N failed`, and nothing else.
fn verdict(line: &str) -> Option<Verdict> {
    let (passed, rest) = line.split_once(" passed, ")?;
    let failed = rest.strip_suffix(" failed")?;
    Some(Verdict { passed: passed.parse().ok()?, failed: failed.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closing_line_is_a_verdict() {
        assert_eq!(verdict("58 passed, 0 failed"), Some(Verdict { passed: 58, failed: 0 }));
        for line in ["FAIL x: 58 passed, 0 failed", "58 passed, some failed", ""] {
            assert_eq!(verdict(line), None, "{line}");
        }
    }
}
