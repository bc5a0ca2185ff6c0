use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::spawn::Process;

/// How long a command may take to leave once its client has.
const LEAVES_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Ends a command whose client is gone: hung up at once, killed if it stays.
pub async fn hang_up(process: Process) {
    let Process { mut child, group, terminal, stdin, .. } = process;
    let foreground = terminal.as_ref().and_then(|terminal| terminal.foreground());
    let groups = [Some(group), foreground.filter(|foreground| *foreground != group)];
    let tell = |signal| {
        for group in groups.iter().flatten() {
            // It may be gone already.
            let _ = killpg(*group, signal);
        }
    };
    tell(Signal::SIGHUP);
    // A stopped program hears nothing until it continues.
    tell(Signal::SIGCONT);
    // The terminal hangs up with its last descriptor here.
    drop((terminal, stdin));
    let left = async {
        // The leader is reaped here. Its number stays taken while its group has members.
        let _ = child.wait().await;
        while groups.iter().flatten().any(|group| is_alive(*group)) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    if tokio::time::timeout(LEAVES_WITHIN, left).await.is_err() {
        tell(Signal::SIGKILL);
        let _ = child.wait().await;
    }
}

fn is_alive(group: Pid) -> bool {
    killpg(group, None).is_ok()
}
