//! Commands on a terminal that outlive their clients.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Exec, Host, eventually, is_alive, on_terminal};
use sandbox_guest::LinkEnd;
use sandbox_model::{ExitStatus, Keep, SessionEnd, TermSize};
use sandbox_wire::{ExecInput, ExecOutput, ExecRequest, GuestSessionEnd};

const SIZE: TermSize = TermSize { cols: 81, rows: 23 };
const SMALL: TermSize = TermSize { cols: 60, rows: 10 };

fn kept(script: &str) -> ExecRequest {
    ExecRequest {
        keep: Some(Keep { kind: "shell".into(), key: String::new(), title: "a test".into() }),
        ..on_terminal(script)
    }
}

/// Starts one; its client, its process and its number.
async fn begin(host: &Host, script: &str) -> (Exec, u32, u32) {
    let mut exec = host.exec(kept(script)).await;
    match exec.next().await {
        Some(ExecOutput::Started { pid, session: Some(session) }) => (exec, pid, session),
        other => panic!("not kept: {other:?}"),
    }
}

async fn alone(host: &Host, session: u32) {
    let begun = Instant::now();
    loop {
        let found = host.sessions().await;
        if found.iter().any(|one| one.id == session && one.clients == 0) {
            return;
        }
        assert!(begun.elapsed() < common::PATIENCE, "never without a client: {found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const COUNTER: &str = "n=0; while :; do n=$((n+1)); echo \"count $n.\"; sleep 0.05; done";

#[tokio::test]
async fn a_client_that_goes_leaves_the_command_and_one_that_comes_sees_what_it_missed() {
    let host = Host::booted();
    let (mut exec, pid, session) = begin(&host, COUNTER).await;
    exec.until("count 3.").await;
    drop(exec);
    alone(&host, session).await;
    let listed = &host.sessions().await[0];
    assert_eq!((listed.keep.title.as_str(), listed.size, listed.ended), ("a test", SIZE, None));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(is_alive(pid));
    let mut again = host.attach(session, SIZE).await;
    let seen = again.until("count 30.").await;
    for number in 1..=30 {
        assert!(seen.contains(&format!("count {number}.")), "{number} is missing in {seen:?}");
    }
    assert_eq!(host.end(session).await, GuestSessionEnd::Ended(SessionEnd::HungUp));
    assert_eq!(again.finish().await.end, Some(ExitStatus::Signal(1)));
    assert!(!is_alive(pid));
    assert!(host.sessions().await.is_empty());
}

#[tokio::test]
async fn a_lost_link_leaves_it_too() {
    let host = Host::booted();
    let (mut exec, pid, session) = begin(&host, COUNTER).await;
    exec.until("count 3.").await;
    let (guest, machine) = (Arc::clone(&host.guest), Arc::clone(&host.machine));
    assert_eq!(host.disconnect().await, LinkEnd::Lost);
    let host = Host::again(&guest, &machine);
    alone(&host, session).await;
    let mut again = host.attach(session, SIZE).await;
    again.until("count 9.").await;
    host.end(session).await;
    eventually("it ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn everybody_sees_and_everybody_types() {
    let host = Host::booted();
    let (mut one, _, session) =
        begin(&host, "stty -echo; while read -r line; do echo \"<$line>\"; done").await;
    let mut two = host.attach(session, SIZE).await;
    one.to.stdin(b"from one\r").await;
    one.until("<from one>").await;
    two.until("<from one>").await;
    two.to.stdin(b"from two\r").await;
    one.until("<from two>").await;
    two.until("<from two>").await;
    // An answer of the terminal that is not the active one is not the program's.
    one.to.stdin(b"\x1b[?62;22c").await;
    one.to.stdin(b"end\r").await;
    let text = one.until("<end>").await;
    assert!(!text.contains("62"), "{text:?}");
    two.to.send(&ExecInput::Eof).await;
    assert_eq!(one.finish().await.end, Some(ExitStatus::SUCCESS));
    assert_eq!(two.finish().await.end, Some(ExitStatus::SUCCESS));
    assert!(host.sessions().await.is_empty(), "its end was seen");
}

#[tokio::test]
async fn it_is_as_large_as_the_smallest_terminal() {
    let host = Host::booted();
    let script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done";
    let (mut one, _, session) = begin(&host, script).await;
    one.until("23 81").await;
    let mut two = host.attach(session, SMALL).await;
    two.until("10 60").await;
    one.until("10 60").await;
    two.to.send(&ExecInput::Resize(TermSize { cols: 70, rows: 30 })).await;
    two.until("23 70").await;
    drop(two);
    one.until("23 81").await;
    host.end(session).await;
}

#[tokio::test]
async fn who_attaches_at_the_same_size_makes_it_draw_itself() {
    let host = Host::booted();
    let script = "trap 'echo drawn' WINCH; echo ready; while :; do sleep 0.05; done";
    let (mut one, _, session) = begin(&host, script).await;
    one.until("ready").await;
    drop(one);
    alone(&host, session).await;
    host.attach(session, SIZE).await.until("drawn").await;
    host.end(session).await;
}

#[tokio::test]
async fn one_that_stopped_itself_goes_on_when_somebody_comes_back() {
    let host = Host::booted();
    let (mut one, pid, session) = begin(&host, "echo ready.; kill -STOP $$; echo and on.; read -r end").await;
    one.until("ready.").await;
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    eventually("it stops", is_stopped).await;
    drop(one);
    alone(&host, session).await;
    assert!(is_stopped());
    host.attach(session, SIZE).await.until("and on.").await;
    host.end(session).await;
}

#[tokio::test]
async fn an_end_that_nobody_saw_waits_for_somebody() {
    let host = Host::booted();
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let script = format!("echo ready; until [ -e {} ]; do sleep 0.02; done; echo bye; exit 7", go.display());
    let (mut one, pid, session) = begin(&host, &script).await;
    one.until("ready").await;
    drop(one);
    let begun = Instant::now();
    // What a client has seen waits for nobody.
    while host.sessions().await[0].clients > 0 {
        assert!(begun.elapsed() < common::PATIENCE, "{:?}", host.sessions().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(go, "").unwrap();
    eventually("it ends", || !is_alive(pid)).await;
    while host.sessions().await[0].ended != Some(ExitStatus::Code(7)) {
        assert!(begun.elapsed() < common::PATIENCE, "{:?}", host.sessions().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ran = host.attach(session, SIZE).await.finish().await;
    assert!(ran.text().contains("bye"), "{ran:?}");
    assert_eq!(ran.end, Some(ExitStatus::Code(7)));
    assert!(host.sessions().await.is_empty());
    let ran = host.attach(session, SIZE).await.finish().await;
    assert!(ran.failed.is_some(), "{ran:?}");
    assert_eq!(host.end(session).await, GuestSessionEnd::NoSuchSession);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let host = Host::booted();
    // Far more than every queue on the way.
    let script = "stty -opost; read -r go; seq 1 400000; echo done; read -r end";
    let (stuck, _, session) = begin(&host, script).await;
    let mut two = host.attach(session, SIZE).await;
    two.to.stdin(b"\r").await;
    two.until("done").await;
    // When it reads again, it ends with the same picture.
    let mut stuck = stuck;
    stuck.until("done").await;
    two.to.stdin(b"\r").await;
    assert_eq!(stuck.finish().await.end, Some(ExitStatus::SUCCESS));
}

#[tokio::test]
async fn one_client_misses_nothing() {
    let host = Host::booted();
    let (exec, ..) = begin(&host, "stty -opost; seq 1 50000; printf end").await;
    let ran = exec.finish().await;
    assert_eq!(ran.text().lines().count(), 50_001);
    assert!(ran.text().starts_with("1\n2\n") && ran.text().ends_with("\n50000\nend"));
}

#[tokio::test]
async fn there_are_only_so_many() {
    let host = Host::booted();
    let mut clients = Vec::new();
    for _ in 0..32 {
        clients.push(begin(&host, "exec sleep 1000").await);
    }
    let ran = host.exec(kept("exec sleep 1000")).await.finish().await;
    assert!(ran.failed.is_some_and(|(_, why)| why.contains("too many")));
    for (.., session) in clients {
        assert_eq!(host.end(session).await, GuestSessionEnd::Ended(SessionEnd::HungUp));
    }
    begin(&host, "exit 0").await.0.finish().await;
}

/// Waits for a line `ready PID`.
async fn ready(exec: &mut Exec) -> u32 {
    let text = exec.until("ready.").await;
    let pid = text.split("pid ").nth(1).and_then(|rest| rest.split_whitespace().next());
    pid.and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("no process in {text:?}"))
}

#[tokio::test]
async fn what_ignores_the_hang_up_is_ended_with_all_on_its_terminal() {
    let host = Host::booted();
    let script =
        "trap '' HUP; (trap '' TERM; exec sleep 1000) & echo pid $! ready.; while :; do sleep 0.05; done";
    let (mut exec, pid, session) = begin(&host, script).await;
    let beside = ready(&mut exec).await;
    assert_eq!(host.end(session).await, GuestSessionEnd::Ended(SessionEnd::Killed), "of what is beside it");
    assert!(!is_alive(pid) && !is_alive(beside));
    assert_eq!(exec.finish().await.end, Some(ExitStatus::Signal(15)), "it heeded TERM");
    assert!(host.sessions().await.is_empty());
}

#[tokio::test]
async fn a_foreground_program_that_ignores_the_hang_up_of_its_shell_is_ended() {
    let host = Host::booted();
    let script =
        "set -m; sh -c 'trap \"\" HUP; echo pid $$ ready.; while :; do sleep 0.05; done'; echo never";
    let (mut exec, pid, session) = begin(&host, script).await;
    let inner = ready(&mut exec).await;
    assert_ne!(inner, pid);
    assert_eq!(host.end(session).await, GuestSessionEnd::Ended(SessionEnd::Terminated));
    eventually("both end", || !is_alive(pid) && !is_alive(inner)).await;
}

#[tokio::test]
async fn what_was_sent_to_the_background_to_stay_outlives_the_hang_up() {
    let host = Host::booted();
    let script = "set -m; (trap '' HUP; exec sleep 1000) & echo pid $! ready.; cat";
    let (mut exec, pid, session) = begin(&host, script).await;
    let beside = ready(&mut exec).await;
    assert_eq!(host.end(session).await, GuestSessionEnd::Ended(SessionEnd::HungUp));
    eventually("it ends", || !is_alive(pid)).await;
    assert!(is_alive(beside));
    let beside = nix::unistd::Pid::from_raw(beside.cast_signed());
    nix::sys::signal::kill(beside, nix::sys::signal::Signal::SIGKILL).unwrap();
}
