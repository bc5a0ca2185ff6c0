use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use futures::{AsyncReadExt, AsyncWriteExt};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, sync};
use sandbox_wire::{FrameError, GuestReply};

use crate::framed::{FrameReader, send};
use crate::guest::Guest;
use crate::session::blocking;

/// How long the host may take to read the reply and close its end before the power goes anyway.
pub const HOST_READS_WITHIN: Duration = Duration::from_millis(100);
/// How long everybody may take to end before terminals are hung up.
const SHELLS_WAIT: Duration = Duration::from_secs(1);
/// How long killed processes may take to be gone.
const KILLED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// File systems that lose nothing when the power goes.
const VOLATILE: [&str; 12] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "tmpfs",
    "mqueue",
    "cgroup2",
    "rootfs",
    "securityfs",
    "bpf",
    "tracefs",
    "debugfs",
];

/// Serves [`sandbox_wire::GuestRequest::Shutdown`]: once. `grace_millis` is what processes get before they
/// are killed.
pub async fn answer(grace_millis: u64, frames: FrameReader, guest: &Arc<Guest>) -> Result<(), FrameError> {
    let (_, mut stream) = frames.into_raw();
    if !guest.claim_shutdown() {
        send(&mut stream, &GuestReply::Failed("the sandbox is already shutting down".into())).await?;
        return Ok(stream.close().await?);
    }
    let machine = Arc::clone(&guest.machine);
    let reply = blocking::<std::convert::Infallible>(move || {
        machine.shut_down(Duration::from_millis(grace_millis));
        Ok(())
    })
    .await;
    // The power goes whether or not anybody hears of it.
    if send(&mut stream, &reply).await.is_ok() && stream.close().await.is_ok() {
        let _ = tokio::time::timeout(HOST_READS_WITHIN, stream.read(&mut [0])).await;
    }
    guest.power_off.notify_one();
    Ok(())
}

/// Ends every process but this one and process 1.
pub fn end_processes(grace: Duration) {
    let everybody = Pid::from_raw(-1);
    // A stopped process acts on nothing until it continues.
    let _ = kill(everybody, Signal::SIGTERM);
    let _ = kill(everybody, Signal::SIGCONT);
    let first = grace.min(SHELLS_WAIT);
    if nobody_left_within(first) {
        return;
    }
    // A shell that waits for its user does not hear the first.
    for (pid, _) in programs().filter(|(_, stat)| leads_a_terminal(stat)) {
        let _ = kill(pid, Signal::SIGHUP);
    }
    if !nobody_left_within(grace.saturating_sub(first)) {
        let _ = kill(everybody, Signal::SIGKILL);
        nobody_left_within(KILLED_WITHIN);
    }
}

fn nobody_left_within(limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while programs().next().is_some() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOOK_AGAIN);
    }
    true
}

/// Everything that runs but this process and process 1, with its line in `/proc/PID/stat`.
fn programs() -> impl Iterator<Item = (Pid, String)> {
    let me = Pid::this();
    fs_err::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter(move |pid| pid.as_raw() != 1 && *pid != me)
        .filter_map(|pid| Some((pid, fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?)))
        .filter(|(_, stat)| is_running_program(stat))
}

/// Whether a line of `/proc/PID/stat` is neither a kernel thread nor a process that has ended already.
fn is_running_program(stat: &str) -> bool {
    /// `kthreadd`, the parent of all kernel threads.
    const KTHREADD: u32 = 2;
    let pid = stat.split(' ').next().and_then(|word| word.parse::<u32>().ok());
    // The name may hold anything, parentheses included, so the fields are counted from its end.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let mut fields = rest.split(' ');
    let state = fields.next();
    let parent = fields.next().and_then(|word| word.parse::<u32>().ok());
    pid != Some(KTHREADD) && parent != Some(KTHREADD) && !matches!(state, Some("Z" | "X"))
}

/// Whether a line of `/proc/PID/stat` is of the first process of a session with a terminal.
fn leads_a_terminal(stat: &str) -> bool {
    let pid = stat.split(' ').next();
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let mut fields = rest.split(' ').skip(3);
    let (session, terminal) = (fields.next(), fields.next());
    session == pid && terminal.is_some_and(|number| number != "0")
}

/// Writes everything back and unmounts what holds data. What is busy is let go lazily: the data is safe.
pub fn leave_disks_clean() {
    sync();
    let mounts = fs_err::read_to_string("/proc/self/mounts").unwrap_or_default();
    for target in to_unmount(&mounts) {
        if umount2(target.as_str(), MntFlags::empty()).is_err() {
            let _ = remount_readonly(&target);
            let _ = umount2(target.as_str(), MntFlags::MNT_DETACH);
        }
    }
    let _ = remount_readonly("/");
}

/// Makes the file system mounted at `target` read-only, which leaves nothing to recover.
pub fn remount_readonly(target: &str) -> nix::Result<()> {
    mount(None::<&str>, target, None::<&str>, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, None::<&str>)
}

/// The mount points of a mount table that hold data, the latest first. The root stays.
fn to_unmount(mounts: &str) -> Vec<String> {
    let mut targets: Vec<_> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (target, fstype) = (fields.next()?, fields.next()?);
            (target != "/" && !VOLATILE.contains(&fstype)).then(|| unescape(target))
        })
        .collect();
    targets.reverse();
    targets
}

/// The kernel writes blanks and backslashes of a path as three octal digits.
fn unescape(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_and_the_dead_do_not_count() {
        assert!(is_running_program("57 (a) b) S 1 57 57 0 -1"));
        assert!(is_running_program("57 (sleep) T 40 57"));
        assert!(!is_running_program("2 (kthreadd) S 0 0 0"));
        assert!(!is_running_program("9 (kworker/0:1) I 2 0 0"));
        assert!(!is_running_program("58 (true) Z 1 58"));
        assert!(!is_running_program("nonsense"));
    }

    #[test]
    fn a_shell_on_a_terminal_leads_it() {
        assert!(leads_a_terminal("57 (a) b) S 1 57 57 34816 57 0"));
        assert!(!leads_a_terminal("58 (sleep) S 57 58 57 34816 57 0"), "a job of it");
        assert!(!leads_a_terminal("59 (server) S 1 59 59 0 -1 0"), "no terminal");
        assert!(!leads_a_terminal("nonsense"));
    }

    #[test]
    fn only_data_is_unmounted_and_in_reverse() {
        let mounts = "overlay / overlay rw 0 0\nproc /proc proc rw 0 0\n/dev/vdc /home/dev ext4 rw 0 0\n\
                      tmpfs /tmp tmpfs rw 0 0\nws /work\\040space virtiofs rw 0 0\n";
        assert_eq!(to_unmount(mounts), ["/work space", "/home/dev"]);
    }
}
