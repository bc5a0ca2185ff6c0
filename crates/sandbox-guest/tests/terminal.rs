//! Commands on a terminal.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, eventually, is_alive, on_terminal};
use sandbox_model::{ExitStatus, TermSize};
use sandbox_wire::ExecInput;

#[tokio::test]
async fn the_terminal_has_the_size_and_is_the_controlling_one() {
    let ran = Host::booted()
        .exec(on_terminal("stty size; tty; echo $TERM; echo x > /dev/tty; exit 5"))
        .await
        .finish()
        .await;
    let text = ran.text();
    assert!(text.starts_with("23 81\r\n/dev/pts/"), "{text:?}");
    assert!(text.ends_with("xterm-256color\r\nx\r\n"), "{text:?}");
    assert_eq!(ran.end, Some(ExitStatus::Code(5)));
}

#[tokio::test]
async fn a_resize_is_seen_and_announced() {
    let host = Host::booted();
    let script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut exec = host.exec(on_terminal(script)).await;
    exec.until("ready").await;
    exec.to.send(&ExecInput::Resize(TermSize { cols: 132, rows: 43 })).await;
    exec.until("43 132").await;
    assert_eq!(exec.finish().await.end, Some(ExitStatus::SUCCESS));
}

#[tokio::test]
async fn control_c_works_as_a_key() {
    let host = Host::booted();
    let mut exec = host.exec(on_terminal("echo ready; exec sleep 1000")).await;
    exec.until("ready").await;
    exec.to.stdin(&[3]).await;
    assert_eq!(exec.finish().await.end, Some(ExitStatus::Signal(2)));
}

#[tokio::test]
async fn an_interrupt_goes_to_the_foreground_job() {
    let host = Host::booted();
    // With job control, the job is in a group of its own, and the shell survives the signal.
    let mut exec = host
        .exec(on_terminal("trap : INT; set -m; sh -c 'echo ready; exec sleep 1000'; echo after $?"))
        .await;
    exec.until("ready").await;
    exec.to.send(&ExecInput::Signal(2)).await;
    exec.until("after 130").await;
    assert_eq!(exec.finish().await.end, Some(ExitStatus::SUCCESS));
}

#[tokio::test]
async fn the_end_of_input_is_a_key() {
    let host = Host::booted();
    let mut exec = host.exec(on_terminal("echo ready; stty -echo; cat; echo done")).await;
    exec.until("ready").await;
    // Without a newline, the first key only hands the line over.
    exec.to.stdin(b"half a line").await;
    exec.to.send(&ExecInput::Eof).await;
    let text = exec.until("done").await;
    assert!(text.contains("half a linedone"), "{text:?}");
    assert_eq!(exec.finish().await.end, Some(ExitStatus::SUCCESS));
}

#[tokio::test]
async fn all_output_of_a_finished_command_arrives() {
    let ran = Host::booted().exec(on_terminal("stty -opost; seq 1 50000; printf end")).await.finish().await;
    let text = ran.text();
    assert!(text.starts_with("1\n2\n"), "{:?}", &text[..40]);
    assert!(text.ends_with("\n50000\nend"), "{:?}", &text[text.len() - 40..]);
    assert_eq!(text.lines().count(), 50_001);
}

#[tokio::test]
async fn a_job_that_keeps_the_terminal_does_not_hold_the_session() {
    let host = Host::booted();
    let mut exec = host.exec(on_terminal("trap '' HUP; sleep 1000 & echo pid $!")).await;
    let text = exec.until("\r\n").await;
    let pid: u32 = text.trim().strip_prefix("pid ").unwrap().parse().unwrap();
    assert_eq!(exec.finish().await.end, Some(ExitStatus::SUCCESS));
    assert!(is_alive(pid), "it ignores the hang-up");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    eventually("it ends", || !is_alive(pid)).await;
}
