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
const MEMORY_MIB: &str = "5120";

/// Boots, echoes what the cases say, and gives the closing line.
pub fn run(lab: &Path, base: &Base, inputs: &Path) -> Outcome<String> {
    let drive = |path: &Path, more: &str| format!("file={},if=virtio,format=raw{more}", path.display());
    println!("==> the lab: QEMU with an emulated processor");
    let mut qemu = Command::new("qemu-system-x86_64");
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
    let mut log = File::create(lab.join("serial.log")).map_err(|error| text(&error))?;
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
    let mut verdict = None;
    let outcome = loop {
        let left = DEADLINE.saturating_sub(began.elapsed());
        match lines.recv_timeout(left.min(SILENCE)) {
            Ok(line) => {
                writeln!(log, "{line}").map_err(|error| text(&error))?;
                if is_of_the_cases(&line) {
                    println!("    {line}");
                }
                if is_verdict(&line) {
                    verdict = Some(line);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) => break Err("the lab was silent for too long".to_string()),
        }
    };
    // It has ended by itself, or must.
    let _ = child.kill();
    let _ = child.wait();
    println!("    {:.0} s", began.elapsed().as_secs_f64());
    outcome?;
    verdict.ok_or_else(|| "the lab ended without a verdict; its console tells why".into())
}

/// The firmware clears the screen, and the kernel has its own to say.
fn is_of_the_cases(line: &str) -> bool {
    ["pass ", "FAIL ", "     ", "lab: ", "error: "].iter().any(|begin| line.contains(begin))
        && !line.starts_with('[')
}

fn is_verdict(line: &str) -> bool {
    line.split_once(" passed, ").is_some_and(|(passed, rest)| {
        passed.parse::<u32>().is_ok()
            && rest.strip_suffix(" failed").is_some_and(|n| n.parse::<u32>().is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closing_line_is_a_verdict() {
        assert!(is_verdict("58 passed, 0 failed"));
        assert!(!is_verdict("FAIL x: 58 passed, 0 failed"));
        assert!(!is_verdict("58 passed, some failed"));
        assert!(!is_verdict(""));
    }
}
