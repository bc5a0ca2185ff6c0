//! Programs that read a file system which a guest has made: whatever it is, they end, and do not take the host's
//! memory with them.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::{LifecycleError, Result};

/// A large home on a slow disk takes minutes.
const WITHIN: Duration = Duration::from_mins(30);
/// Bytes of one of the two streams. A line for each file that an image has in its home fits many times.
const MOST_SAID: u64 = 64 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Bytes of address space. Measured: a full check of a home of 64 GiB with 10,000 files takes 13 MiB.
const MEMORY: u64 = 4 << 30;

/// What a program does to `file` says; an error where it does not end, or says without an end.
pub fn output(command: &mut Command, file: &Path) -> Result<Output> {
    output_within(command, file, WITHIN, MOST_SAID)
}

fn output_within(command: &mut Command, file: &Path, within: Duration, most: u64) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |problem: String| LifecycleError::HomeVolume { path: file.into(), problem };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| std::io::Error::new(error.kind(), format!("cannot start {program}: {error}")))?;
    if let Err(error) = limit(&child, within) {
        end(&mut child);
        return Err(error.into());
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stdout = scope.spawn(|| read(stdout, most, &over));
        let stderr = scope.spawn(|| read(stderr, most, &over));
        let deadline = Instant::now() + within;
        let status = loop {
            if over.load(Ordering::Relaxed) {
                end(&mut child);
                return Err(failed(format!("{program} says more of it than {} MiB", most >> 20)));
            }
            if Instant::now() >= deadline {
                end(&mut child);
                return Err(failed(format!("{program} did not end within {} s", within.as_secs())));
            }
            match child.try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(LOOK_AGAIN),
            }
        };
        let said = |read: std::thread::Result<std::io::Result<Vec<u8>>>| {
            read.unwrap_or_else(|_| Err(std::io::Error::other("a reader failed")))
        };
        Ok(Output { status, stdout: said(stdout.join())?, stderr: said(stderr.join())? })
    })
}

/// It has come no further than its own start by then.
fn limit(child: &Child, within: Duration) -> std::io::Result<()> {
    let limits = [(Resource::As, MEMORY), (Resource::Cpu, within.as_secs().max(1)), (Resource::Core, 0)];
    for (resource, most) in limits {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        match prlimit(Some(Pid::from_child(child)), resource, limit) {
            // It has ended already.
            Ok(_) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn read(stream: Option<impl Read>, most: u64, over: &AtomicBool) -> std::io::Result<Vec<u8>> {
    let mut said = Vec::new();
    let Some(stream) = stream else { return Ok(said) };
    stream.take(most + 1).read_to_end(&mut said)?;
    if said.len() as u64 > most {
        over.store(true, Ordering::Relaxed);
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, within: Duration) -> Result<Output> {
        let mut command = Command::new("sh");
        output_within(command.args(["-c", script]), Path::new("home.ext4"), within, 1 << 20)
    }

    fn problem(ended: Result<Output>) -> String {
        match ended {
            Err(LifecycleError::HomeVolume { problem, .. }) => problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let minute = Duration::from_mins(1);
        let fine = sh("echo out; echo err >&2; exit 3", minute).unwrap();
        assert_eq!(
            (fine.status.code(), fine.stdout, fine.stderr),
            (Some(3), b"out\n".into(), b"err\n".into())
        );
        let ended = problem(sh("exec sleep 600", Duration::from_millis(100)));
        assert_eq!(ended, "sh did not end within 0 s");
        for stream in ["", ">&2"] {
            let ended = problem(sh(&format!("while :; do echo for ever {stream}; done"), minute));
            assert_eq!(ended, "sh says more of it than 1 MiB");
        }
    }

    #[test]
    fn it_has_so_much_memory_and_no_more() {
        let script = "until [ \"$(ulimit -v; ulimit -c)\" = \"$1\" ]; do :; done; echo so it is";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", &format!("{}\n0", MEMORY >> 10)]);
        let limits = output_within(&mut command, Path::new("home.ext4"), Duration::from_mins(1), 1 << 20);
        assert_eq!(limits.unwrap().stdout, b"so it is\n");
    }
}
