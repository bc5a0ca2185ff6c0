//! Commands without a terminal.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{Host, command, eventually, is_alive, me, sh};
use futures::AsyncWriteExt;
use nix::unistd::geteuid;
use sandbox_model::{ExitStatus, GUEST_SSH_AGENT_ASIDE, SSH_AGENT_VARIABLE};
use sandbox_wire::{ExecInput, ExecOutput, ExecRequest};

/// A command whose agent's socket nobody makes here: it waits for that in vain.
fn awaiting_its_agent(script: &str) -> ExecRequest {
    ExecRequest { env: vec![(SSH_AGENT_VARIABLE.into(), GUEST_SSH_AGENT_ASIDE.into())], ..sh(script) }
}

#[tokio::test]
async fn a_client_that_goes_while_its_agent_is_awaited_starts_nothing() {
    let host = Host::booted();
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("started");
    let mut exec = host.exec(awaiting_its_agent(&format!("touch '{}'", mark.display()))).await;
    exec.to.stdin(b"something").await;
    exec.to.0.close().await.unwrap();
    // Where nobody looked for it, the command would say first that it has started.
    assert_eq!(exec.next().await, None);
    assert!(!mark.exists());
}

#[tokio::test]
async fn what_a_client_says_while_its_agent_is_awaited_reaches_its_command() {
    let host = Host::booted();
    let mut exec = host.exec(awaiting_its_agent("cat")).await;
    exec.to.stdin(b"one ").await;
    exec.to.stdin(b"two").await;
    exec.to.send(&ExecInput::Eof).await;
    assert_eq!(exec.finish().await.text(), "one two");
}

#[tokio::test]
async fn output_and_exit_code_come_back() {
    let ran = Host::booted().run("echo out; echo err >&2; exit 7").await;
    assert_eq!(ran.text(), "out\n");
    assert_eq!(ran.stderr, b"err\n");
    assert_eq!(ran.end, Some(ExitStatus::Code(7)));
}

#[tokio::test]
async fn an_end_by_a_signal_is_told_as_such() {
    let ran = Host::booted().run("kill -9 $$").await;
    assert_eq!(ran.end, Some(ExitStatus::Signal(9)));
}

#[tokio::test]
async fn words_arrive_byte_for_byte() {
    let mut request = command(&["/usr/bin/printf", "%s|"]);
    let words: [&[u8]; 4] = [b"two words", b"a\nb", b"", b"\xff'\"\\"];
    request.argv.extend(words.map(<[u8]>::to_vec));
    let ran = Host::booted().exec(request).await.finish().await;
    assert_eq!(ran.stdout, b"two words|a\nb||\xff'\"\\|");
}

#[tokio::test]
async fn input_ends_with_its_frame_and_output_still_flows() {
    let host = Host::booted();
    let mut exec = host.exec(sh("cat; echo done")).await;
    exec.to.stdin(b"one ").await;
    exec.to.stdin(b"two\n").await;
    exec.to.send(&ExecInput::Eof).await;
    let ran = exec.finish().await;
    assert_eq!(ran.text(), "one two\ndone\n");
    assert_eq!(ran.end, Some(ExitStatus::SUCCESS));
}

#[tokio::test]
async fn a_command_that_ignores_its_input_still_ends_well() {
    let host = Host::booted();
    let mut exec = host.exec(sh("exec <&-; sleep 0.2; exit 3")).await;
    for _ in 0..40 {
        exec.to.stdin(&vec![b'x'; 50_000]).await;
    }
    assert_eq!(exec.finish().await.end, Some(ExitStatus::Code(3)));
}

#[tokio::test]
async fn environment_and_folder_are_the_requests_on_top_of_the_sandboxs() {
    let host = Host::booted();
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let env = vec![("ADDED".into(), "1".into()), ("HOME".into(), "/elsewhere".into())];
    let request =
        ExecRequest { env, cwd: cwd.clone(), ..sh("echo $SANDBOX $ADDED $HOME $USER $PWD ${TERM-none}") };
    let ran = host.exec(request).await.finish().await;
    assert_eq!(ran.text(), format!("yes 1 /elsewhere {} {cwd} none\n", me()));
}

#[tokio::test]
async fn what_cannot_run_fails_with_the_shells_code() {
    let host = Host::booted();
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let orphan = dir.path().join("orphan");
    std::fs::write(&orphan, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&orphan, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let paths = [plain.to_str().unwrap(), orphan.to_str().unwrap()];
    let nowhere = ExecRequest { cwd: "/no/such/folder".into(), ..sh("true") };
    let nobody = ExecRequest { user: "no-such-user".into(), ..sh("true") };
    for (request, code, part) in [
        (command(&["no-such-command"]), 127, "no-such-command: command not found"),
        (command(&["/no/such/command"]), 127, "/no/such/command: command not found"),
        (command(&[paths[0]]), 126, "not executable"),
        (command(&[paths[1]]), 126, "interpreter"),
        (command(&["/tmp"]), 126, "/tmp: not executable"),
        (command(&["/bin/echo", "a\0b"]), 1, "zero byte"),
        (command(&[]), 1, "no command"),
        (nowhere, 1, "/no/such/folder"),
        (nobody, 1, "no-such-user"),
    ] {
        let ran = host.exec(request).await.finish().await;
        let (got, message) = ran.failed.expect("a refusal");
        assert_eq!(got, code, "{message}");
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

#[tokio::test]
async fn another_user_takes_root() {
    // Root may become anybody, groups included; nobody else may become anything.
    let request = |user: &str| ExecRequest { user: user.into(), ..sh("id -u; id -G; umask") };
    let host = Host::booted();
    if geteuid().is_root() {
        let ran = host.exec(request("daemon")).await.finish().await;
        assert_eq!(ran.text(), "1\n1\n0022\n");
    } else {
        let ran = host.exec(request("root")).await.finish().await;
        assert!(ran.failed.unwrap().1.contains("only root"));
    }
}

#[tokio::test]
async fn a_command_begins_clean() {
    let host = Host::booted();
    let ran =
        host.run("ls /proc/self/fd; ulimit -Sn; ps -o pid=,pgid=,sid= -p $$ | tr -s ' '; echo $$").await;
    let lines: Vec<_> = ran.text().lines().collect();
    // The three streams and the folder that `ls` reads.
    assert_eq!(lines[..4], ["0", "1", "2", "3"], "{lines:?}");
    assert_eq!(lines[4], "1024");
    let pid = lines[6];
    assert_eq!(lines[5].trim(), format!("{pid} {pid} {pid}"));
    let ran = host.run("grep -hE '^Sig(Blk|Ign)' /proc/self/status; cat /proc/self/oom_score_adj").await;
    let lines: Vec<_> = ran.text().lines().collect();
    for line in &lines[..2] {
        let mask = u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        // The C library keeps the 32nd and 33rd signal to itself.
        assert_eq!(mask & !(0b11 << 31), 0, "{line}");
    }
    assert_eq!(lines[2], "0");
}

#[tokio::test]
async fn a_signal_reaches_the_whole_group() {
    let host = Host::booted();
    let mut exec = host.exec(sh("sleep 1000 & echo $!; wait")).await;
    let child: u32 = exec.until("\n").await.trim().parse().unwrap();
    assert!(is_alive(child));
    exec.to.send(&ExecInput::Signal(15)).await;
    assert_eq!(exec.finish().await.end, Some(ExitStatus::Signal(15)));
    eventually("the child ends", || !is_alive(child)).await;
}

#[tokio::test]
async fn a_signal_overtakes_input_that_nobody_reads() {
    let host = Host::booted();
    let mut exec = host.exec(sh("exec sleep 1000")).await;
    for _ in 0..10 {
        exec.to.stdin(&vec![b'x'; 60_000]).await;
    }
    exec.to.send(&ExecInput::Signal(2)).await;
    assert_eq!(exec.finish().await.end, Some(ExitStatus::Signal(2)));
}

#[tokio::test]
async fn what_holds_the_pipe_open_does_not_hold_the_session() {
    let host = Host::booted();
    let begun = Instant::now();
    let mut exec = host.exec(sh("sleep 1000 & echo $!; echo last")).await;
    let pid: u32 = exec.until("last\n").await.lines().next().unwrap().parse().unwrap();
    assert_eq!(exec.finish().await.end, Some(ExitStatus::SUCCESS));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(is_alive(pid));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
}

#[tokio::test]
async fn what_talks_on_for_ever_does_not_hold_the_session() {
    let host = Host::booted();
    let begun = Instant::now();
    let ran = host.run("yes & echo $! >&2").await;
    assert_eq!(ran.end, Some(ExitStatus::SUCCESS));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let pid: u32 = std::str::from_utf8(&ran.stderr).unwrap().trim().parse().unwrap();
    eventually("it ends by its closed pipe", || !is_alive(pid)).await;
}

#[tokio::test]
async fn a_detached_command_outlives_its_session() {
    let host = Host::booted();
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let script = format!("ls -l /proc/self/fd > {0}.fds; sleep 0.3; mv {0}.fds {0}", mark.display());
    let mut exec = host.exec(ExecRequest { detach: true, ..sh(&script) }).await;
    exec.started().await;
    assert_eq!(exec.next().await, None);
    drop(exec);
    eventually("the mark appears", || mark.exists()).await;
    let descriptors = std::fs::read_to_string(&mark).unwrap();
    assert_eq!(descriptors.lines().filter(|line| line.ends_with("/dev/null")).count(), 2, "{descriptors}");
}

#[tokio::test]
async fn fifty_commands_run_at_the_same_time() {
    let host = Host::booted();
    let mut running = Vec::new();
    for number in 0..50 {
        let mut exec = host.exec(sh(&format!("read line; echo $line {number}; exit {number}"))).await;
        exec.started().await;
        running.push(exec);
    }
    // All of them wait: none has ended before the last began.
    for (number, mut exec) in (0..).zip(running) {
        exec.to.stdin(b"hello\n").await;
        let ran = exec.finish().await;
        assert_eq!(ran.text(), format!("hello {number}\n"));
        assert_eq!(ran.end, Some(ExitStatus::Code(number)));
    }
}

#[tokio::test]
async fn started_comes_first() {
    let host = Host::booted();
    let mut exec = host.exec(sh("echo $$")).await;
    let pid = exec.started().await;
    assert_eq!(exec.next().await, Some(ExecOutput::Stdout(format!("{pid}\n").into_bytes())));
}
