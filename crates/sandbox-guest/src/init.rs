//! Process 1. It does as little as possible, because nothing can be done about its own failures.

use std::io;
use std::os::unix::process::CommandExt;
use std::panic;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, chdir, chroot, dup2_stderr, dup2_stdin, dup2_stdout, sync};

use crate::console::say;

/// What the agent process sends to process 1 once it lives in the new root.
pub const ROOT_IS_SWITCHED: Signal = Signal::SIGUSR1;

const BEFORE_ANYTHING: [(&str, &str); 3] = [("/dev", "devtmpfs"), ("/proc", "proc"), ("/sys", "sysfs")];

/// Mounts what the agent process needs, starts it, reaps every orphan, and cuts the power when the agent
/// process ends.
pub fn run() -> ! {
    panic::set_hook(Box::new(|info| {
        say(format_args!("process 1 panicked: {info}"));
        cut_power();
    }));
    match start().and_then(tend) {
        Ok(WaitStatus::Exited(_, 0)) => {}
        Ok(status) => say(format_args!("the agent process ended: {status:?}")),
        Err(error) => say(format_args!("process 1 failed: {error}")),
    }
    cut_power()
}

fn start() -> io::Result<Pid> {
    for (target, fstype) in BEFORE_ANYTHING {
        fs_err::create_dir_all(target)?;
        match mount(Some(fstype), target, Some(fstype), MsFlags::MS_NOSUID, None::<&str>) {
            // The kernel may have mounted /dev itself.
            Ok(()) | Err(Errno::EBUSY) => {}
            Err(error) => return Err(io::Error::other(format!("mounting {target}: {error}"))),
        }
    }
    use_console();
    // Blocked before the agent process exists, so that neither its end nor its news can be missed.
    wanted_signals().thread_block()?;
    let agent = Command::new("/proc/self/exe").arg0("sandbox-guest").stdin(Stdio::null()).spawn()?;
    // The agent process moves /proc into the new root; a working directory moves with its mount.
    chdir(Path::new("/proc"))?;
    Ok(Pid::from_raw(agent.id().cast_signed()))
}

/// The kernel opens the console for process 1 only where the initrd brings the node along.
fn use_console() {
    if let Ok(console) = open("/dev/console", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()) {
        let _ = dup2_stdin(&console).and(dup2_stdout(&console)).and(dup2_stderr(&console));
    }
}

fn wanted_signals() -> SigSet {
    [Signal::SIGCHLD, ROOT_IS_SWITCHED].into_iter().collect()
}

/// Reaps until the agent process ends, and gives its end.
fn tend(agent: Pid) -> io::Result<WaitStatus> {
    let mut in_old_root = true;
    loop {
        if wanted_signals().wait()? == ROOT_IS_SWITCHED && in_old_root {
            // Nobody may be left in the initrd's root, where paths mean something else.
            chroot(Path::new(&format!("{agent}/root")))?;
            chdir(Path::new("/"))?;
            in_old_root = false;
        }
        if let Some(end) = reap(agent)? {
            return Ok(end);
        }
    }
}

fn reap(agent: Pid) -> io::Result<Option<WaitStatus>> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(None),
            Ok(status) if status.pid() == Some(agent) => return Ok(Some(status)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A microvm without ACPI has no power button: it ends by a reset, which QEMU's `-no-reboot` turns into its
/// own end.
fn cut_power() -> ! {
    sync();
    let outcome = reboot(RebootMode::RB_AUTOBOOT);
    say(format_args!("the power cannot be cut: {outcome:?}"));
    // Process 1 may not return; a panic of the kernel ends the machine too.
    std::process::exit(1)
}
