//! Clients that go away.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{Exec, Host, eventually, is_alive, on_terminal, sh};
use futures::AsyncWriteExt;

/// A script whose shell and child both have to go; it tells the child's number.
const FAMILY: &str = "sleep 1000 & echo pid $!; wait";

async fn family(exec: &mut Exec) -> [u32; 2] {
    let shell = exec.started().await;
    let text = exec.until("\n").await;
    let child = text.trim().strip_prefix("pid ").unwrap().parse().unwrap();
    assert!(is_alive(shell) && is_alive(child));
    [shell, child]
}

async fn all_go(pids: [u32; 2]) {
    eventually("the command is gone", || pids.iter().all(|pid| !is_alive(*pid))).await;
}

#[tokio::test]
async fn a_reset_stream_hangs_the_command_up() {
    let host = Host::booted();
    for request in [sh(FAMILY), on_terminal(FAMILY)] {
        let mut exec = host.exec(request).await;
        let pids = family(&mut exec).await;
        drop(exec);
        all_go(pids).await;
    }
}

#[tokio::test]
async fn a_closed_half_is_a_client_that_is_gone() {
    let host = Host::booted();
    let mut exec = host.exec(sh(FAMILY)).await;
    let pids = family(&mut exec).await;
    exec.to.0.close().await.unwrap();
    all_go(pids).await;
}

#[tokio::test]
async fn a_lost_link_hangs_everything_up() {
    let host = Host::booted();
    let (mut one, mut two) = (host.exec(sh(FAMILY)).await, host.exec(on_terminal(FAMILY)).await);
    let (first, second) = (family(&mut one).await, family(&mut two).await);
    assert_eq!(host.disconnect().await, sandbox_guest::LinkEnd::Lost);
    all_go(first).await;
    all_go(second).await;
}

#[tokio::test]
async fn a_command_that_ignores_the_hang_up_is_killed() {
    let host = Host::booted();
    let mut exec = host.exec(sh(&format!("trap '' HUP; {FAMILY}"))).await;
    let pids = family(&mut exec).await;
    let begun = Instant::now();
    drop(exec);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(is_alive(pids[0]), "it has five seconds");
    all_go(pids).await;
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_client_that_left_unread_input_behind_is_noticed() {
    let host = Host::booted();
    let mut exec = host.exec(sh(FAMILY)).await;
    let pids = family(&mut exec).await;
    // More than the guest reads ahead, and what the link holds.
    let flood = tokio::time::timeout(Duration::from_secs(2), async {
        loop {
            exec.to.stdin(&vec![b'x'; 60_000]).await;
        }
    });
    assert!(flood.await.is_err(), "the guest takes input without end");
    drop(exec);
    all_go(pids).await;
}
