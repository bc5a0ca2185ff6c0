//! Which of a machine's processes ended: when one does, others follow, and the first to be seen is not always
//! the first that ended.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;

/// QEMU's end closes the connections of the others, and a kernel closes a process's sockets before it tells that
/// the process has ended; in between it gives the guest's memory back.
pub const TOLD_WITHIN: Duration = Duration::from_millis(500);
/// The same, where a part says by its status that whom it served has left.
const LEFT_WITHIN: Duration = Duration::from_secs(10);

/// The processes of one boot that are watched.
pub struct Watched<'a> {
    pub qemu: &'a mut Child,
    pub share: &'a mut Child,
    pub mounts: Option<&'a mut Child>,
    pub network: Option<&'a mut Child>,
}

/// The part whose end is the reason for that of the others.
#[derive(Debug)]
pub struct PartEnd {
    /// As in "the share server".
    pub part: &'static str,
    pub status: io::Result<ExitStatus>,
}

const QEMU: &str = "QEMU";

impl PartEnd {
    pub fn is_qemu(&self) -> bool {
        self.part == QEMU
    }

    /// `how` is what follows "ended", as in "while the guest woke".
    pub fn describe(&self, how: &str) -> String {
        match &self.status {
            Ok(status) => format!("{} ended {how} ({status})", self.part),
            Err(error) => format!("{} cannot be watched: {error}", self.part),
        }
    }
}

/// The first end that was seen.
pub struct First {
    part: &'static str,
    status: io::Result<ExitStatus>,
}

impl Watched<'_> {
    /// Returns when a part has ended; [`Self::reason`] tells which one's end it was.
    pub async fn first(&mut self) -> First {
        let (part, status) = tokio::select! {
            biased;
            status = self.qemu.wait() => (QEMU, status),
            status = self.share.wait() => ("the share server", status),
            status = wait(self.mounts.as_deref_mut()) => ("the share server of the mounts", status),
            status = wait(self.network.as_deref_mut()) => ("the network bridge", status),
        };
        First { part, status }
    }

    /// Where QEMU ends too it is QEMU's end.
    pub async fn reason(&mut self, first: First) -> PartEnd {
        let First { part, status } = first;
        if part == QEMU {
            return PartEnd { part, status };
        }
        let within = if status.as_ref().is_ok_and(ExitStatus::success) { LEFT_WITHIN } else { TOLD_WITHIN };
        match tokio::time::timeout(within, self.qemu.wait()).await {
            Ok(status) => PartEnd { part: QEMU, status },
            Err(_) => PartEnd { part, status },
        }
    }
}

async fn wait(part: Option<&mut Child>) -> io::Result<ExitStatus> {
    match part {
        Some(part) => part.wait().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::*;

    fn lives(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).kill_on_drop(true).spawn().unwrap()
    }

    async fn seen(qemu: &str, share: &str, mounts: &str, network: &str) -> String {
        let mut parts = [qemu, share, mounts, network].map(lives);
        let [qemu, share, mounts, network] = &mut parts;
        let mut watched = Watched { qemu, share, mounts: Some(mounts), network: Some(network) };
        let first = watched.first().await;
        watched.reason(first).await.describe("in a test")
    }

    const STAYS: &str = "exec sleep 600";

    #[tokio::test]
    async fn a_part_that_was_left_is_not_the_reason() {
        // Longer than one that broke is waited for.
        let slow = "sleep 1.5; exit 3";
        let said = "QEMU ended in a test (exit status: 3)";
        assert_eq!(seen(slow, "exit 0", STAYS, STAYS).await, said);
        assert_eq!(seen(slow, STAYS, "exit 0", STAYS).await, said);
        assert_eq!(seen(slow, STAYS, STAYS, "exit 0").await, said);
    }

    #[tokio::test]
    async fn a_part_that_broke_is_the_reason_where_qemu_goes_on() {
        let killed = "kill -KILL $$";
        let said = seen(STAYS, killed, STAYS, STAYS).await;
        assert_eq!(said, "the share server ended in a test (signal: 9 (SIGKILL))");
        let said = seen(STAYS, STAYS, "exit 4", STAYS).await;
        assert_eq!(said, "the share server of the mounts ended in a test (exit status: 4)");
        let said = seen(STAYS, STAYS, STAYS, "exit 5").await;
        assert_eq!(said, "the network bridge ended in a test (exit status: 5)");
    }
}
