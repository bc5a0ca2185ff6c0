//! One link for all processes, which none of them needs.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;
use sandbox_model::{ExecSpec, SandboxSpec};
use sandbox_runtime::{Runtime, RuntimeError};
use sandbox_runtime_microsandbox::Patience;
use sandbox_state::{bind_socket, connect_socket};
use sandbox_wire::{GUEST_PROTOCOL, LinkReply, LinkRequest, read_json, write_json};

use crate::fixture::{Fixture, PATIENCE, ROLE, eventually, kill, name, signal};

/// Where [`ROLE`] is set this program is a link process: the one of the other tests, which start it so.
#[test]
fn it_says_what_it_does_not_understand() {
    if std::env::var_os(ROLE).is_some() {
        return sandbox_runtime_microsandbox::link_process::run().unwrap();
    }
    let this = std::env::current_exe().unwrap();
    let mut link = Command::new(this);
    link.args(["--exact", "link_process::it_says_what_it_does_not_understand"]).env(ROLE, "1");
    let ended = link.stdin(Stdio::null()).output().unwrap();
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains("configuration of a link process: EOF while parsing"), "{said}");
}

/// Its number, once it serves over a link that is there.
fn serving(fixture: &Fixture) -> i32 {
    let mut found = None;
    eventually("a link process that serves", || {
        found = fixture.link_process();
        found.is_some() && stream(fixture)
    });
    found.unwrap()
}

/// Whether a stream is given. It ends at once.
fn stream(fixture: &Fixture) -> bool {
    held(fixture).is_some()
}

/// A stream, and the link that it is of.
fn held(fixture: &Fixture) -> Option<(UnixStream, u64)> {
    let mut socket = requested(fixture, GUEST_PROTOCOL)?;
    match read_json(&mut socket) {
        Ok(LinkReply::Ready { generation }) => Some((socket, generation)),
        _ => None,
    }
}

/// Returns once it has happened.
fn tell(fixture: &Fixture, request: &LinkRequest) {
    let mut socket = connect_socket(&fixture.file("link.sock")).unwrap();
    write_json(&mut socket, request).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
}

/// A connection that was asked for a stream, and answered that it is heard.
fn requested(fixture: &Fixture, guest_protocol: u32) -> Option<UnixStream> {
    let mut socket = connect_socket(&fixture.file("link.sock")).ok()?;
    write_json(&mut socket, &LinkRequest::Stream { guest_protocol }).ok()?;
    matches!(read_json(&mut socket), Ok(LinkReply::Here { .. })).then_some(socket)
}

/// Whether a process writes to it on its standard error.
fn is_open(log: &Path) -> bool {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut errors = all.filter_map(|process| fs::read_link(process.path().join("fd/2")).ok());
    errors.any(|error| error == log)
}

/// A question that the guest's program answers.
fn ask(program: &dyn Runtime) -> Result<(), RuntimeError> {
    program.sessions(&name()).map(|sessions| assert!(sessions.is_empty()))
}

fn started() -> Fixture {
    let fixture = Fixture::linked();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    fixture
}

#[test]
fn all_programs_use_one_link_and_two_starts_make_one() {
    let fixture = Fixture::linked();
    fixture.created();
    let another = fixture.another(b"another");
    std::thread::scope(|scope| {
        let starts = [&fixture.runtime, &another].map(|program| scope.spawn(move || program.start(&name())));
        for start in starts {
            start.join().unwrap().unwrap();
        }
    });
    serving(&fixture);
    for program in [&fixture.runtime, &another, &fixture.another(b"third")] {
        ask(program).unwrap();
        ask(program).unwrap();
    }
    assert_eq!(fixture.calls("exec"), 1);
    assert_eq!(fixture.processes("stdio").len(), 1);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let socket = fixture.file("link.sock");
    assert_eq!((mode(socket.parent().unwrap().to_path_buf()), mode(socket)), (0o700, 0o600));
}

#[test]
fn one_that_was_killed_is_done_without_and_another_takes_its_place() {
    let fixture = started();
    let first = serving(&fixture);
    ask(&fixture.runtime).unwrap();
    kill(first);
    eventually("its end", || fixture.link_process().is_none());
    assert!(fixture.file("link.sock").exists(), "what is left of it is in nobody's way");
    ask(&fixture.another(b"none")).unwrap();
    assert_ne!(serving(&fixture), first);
    let links = fixture.calls("exec");
    ask(&fixture.another(b"none")).unwrap();
    assert_eq!(fixture.calls("exec"), links);
}

#[test]
fn one_that_answers_nothing_is_done_without_and_ended_with_the_sandbox() {
    let fixture = started();
    let process = serving(&fixture);
    signal(process, Signal::STOP);
    eventually("its standstill", || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        status.lines().any(|line| line.starts_with("State:\tT"))
    });
    let begin = Instant::now();
    let program = fixture.another(b"none");
    ask(&program).unwrap();
    ask(&program).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!(fixture.calls("exec"), 2);
    program.stop(&name(), Duration::from_secs(1)).unwrap();
    assert_eq!(fixture.link_process(), None);
    assert!(!fixture.file("link.sock").exists());
}

#[test]
fn whatever_ends_the_sandbox_leaves_no_link_process_and_no_socket() {
    let fixture = started();
    for by_force in [false, true] {
        fixture.runtime.start(&name()).unwrap();
        serving(&fixture);
        if by_force {
            fixture.runtime.kill(&name()).unwrap();
        } else {
            fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
        }
        assert_eq!(fixture.link_process(), None);
        assert!(!fixture.file("link.sock").exists());
        let execs = fixture.calls("exec");
        assert!(ask(&fixture.runtime).is_err());
        assert_eq!(fixture.calls("exec"), execs, "an exec would start it again");
    }
    // The machine alone.
    fixture.runtime.start(&name()).unwrap();
    serving(&fixture);
    for machine in fixture.processes("machine") {
        kill(machine);
    }
    eventually("the end of the link process", || fixture.link_process().is_none());
    eventually("the end of its link", || fixture.processes("stdio").is_empty());
    assert!(!fixture.file("link.sock").exists());
    fixture.runtime.start(&name()).unwrap();
    serving(&fixture);
    fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    fixture.runtime.remove(&name()).unwrap();
    assert!(!fixture.file("").exists());
}

/// Whatever opens a link, and at which moment the sandbox ends.
#[test]
fn links_that_hang_are_told_and_leave_nothing() {
    let fixture = Fixture::linked_with(Patience { ask: PATIENCE, work: PATIENCE, load: PATIENCE });
    fixture.created();
    fixture.hang(&["exec"]);
    for early in [true, false] {
        fixture.runtime.start(&name()).unwrap();
        if early {
            eventually("a link", || fixture.calls("exec") > 0);
        } else {
            let outcome = ask(&fixture.runtime);
            assert!(matches!(outcome, Err(RuntimeError::NoAnswer { .. })), "{outcome:?}");
        }
        fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
        assert_eq!(fixture.link_process(), None);
        assert!(fixture.hung() > 0, "and none of them is there any more");
    }
    fixture.hang(&[]);
    fixture.runtime.start(&name()).unwrap();
    serving(&fixture);
    ask(&fixture.runtime).unwrap();
}

#[test]
fn a_boot_that_fails_leaves_none() {
    let fixture = Fixture::linked();
    fixture.created();
    fixture.fail("create", "error: failed to start\n");
    fixture.runtime.start(&name()).unwrap_err();
    // It waits for the lock of the start that has failed.
    let log = fixture.file("link.log");
    eventually("the end of the link process", || !is_open(&log));
    assert!(!fixture.file("link.sock").exists());
    assert_eq!(fixture.calls("exec"), 0, "there is no machine");
}

/// `msb` takes a sandbox with an open link to be in use.
#[test]
fn a_link_that_nobody_uses_is_closed_and_opened_again_for_the_next() {
    let fixture = Fixture::linked();
    fixture.load().unwrap();
    let idle_timeout = Duration::from_secs(2);
    fixture.runtime.create(&SandboxSpec { idle_timeout, ..fixture.spec() }).unwrap();
    fixture.runtime.start(&name()).unwrap();
    let process = serving(&fixture);
    eventually("the end of the link", || fixture.processes("stdio").is_empty());
    assert_eq!(fixture.link_process(), Some(process), "it lives on");
    let links = fixture.calls("exec");
    ask(&fixture.another(b"none")).unwrap();
    assert_eq!((fixture.calls("exec"), fixture.link_process()), (links + 1, Some(process)));
}

#[test]
fn one_of_another_protocol_is_done_without() {
    let fixture = Fixture::linked();
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    kill(serving(&fixture));
    eventually("its end", || fixture.link_process().is_none());
    let links = fixture.calls("exec");
    let listener = bind_socket(&fixture.file("link.sock")).unwrap();
    let request = LinkRequest::Stream { guest_protocol: GUEST_PROTOCOL };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = listener.accept().unwrap().0;
            assert_eq!(read_json::<LinkRequest>(&mut client).unwrap(), request);
            let here = LinkReply::Here { guest_protocol: u32::MAX, version: "9.9.9".into() };
            write_json(&mut client, &here).unwrap();
        });
        ask(&fixture.another(b"none")).unwrap();
    });
    assert!(fixture.calls("exec") > links);
}

#[test]
fn a_client_of_another_protocol_opens_nothing_and_a_newer_one_gets_room() {
    let fixture = started();
    let process = serving(&fixture);
    fixture.hang(&["exec"]);
    let links = fixture.calls("exec");
    for guest_protocol in [GUEST_PROTOCOL - 1, GUEST_PROTOCOL + 1] {
        assert_eq!(fixture.link_process(), Some(process));
        // Whoever was served before may be on his way out.
        eventually("its refusal", || {
            let mut socket = requested(&fixture, guest_protocol);
            let refused = socket.as_mut().map(read_json::<LinkReply>);
            assert!(!matches!(refused, Some(Ok(LinkReply::Ready { .. }))), "{refused:?}");
            guest_protocol < GUEST_PROTOCOL || fixture.link_process().is_none()
        });
    }
    assert_eq!(fixture.calls("exec"), links);
}

#[test]
fn it_has_nothing_of_whoever_started_it() {
    let fixture = Fixture::linked();
    fixture.created();
    let path = fixture.dir.path().join("left-open");
    let open = File::create(&path).unwrap();
    fcntl_setfd(&open, FdFlags::empty()).unwrap();
    fixture.runtime.start(&name()).unwrap();
    let process = PathBuf::from("/proc").join(serving(&fixture).to_string());
    let descriptors: Vec<PathBuf> =
        fs::read_dir(process.join("fd")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(descriptors.iter().filter_map(|fd| fs::read_link(fd).ok()).all(|target| target != path));
    assert!(descriptors.len() > 3, "the door: they can be seen");
    let variables = fs::read_to_string(process.join("environ")).unwrap();
    assert!(variables.contains(ROLE) && !variables.contains("CARGO"), "{variables}");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
}

#[test]
fn a_link_is_renewed_once_however_many_complain_of_it() {
    let fixture = started();
    serving(&fixture);
    let (_stream, first) = held(&fixture).unwrap();
    let links = fixture.calls("exec");
    for _ in 0..3 {
        tell(&fixture, &LinkRequest::Renew { generation: first });
        let (_stream, generation) = held(&fixture).unwrap();
        assert_ne!(generation, first);
        assert_eq!(fixture.calls("exec"), links + 1);
    }
}

#[test]
fn whoever_has_left_has_no_link_opened() {
    let fixture = Fixture::linked_with(Patience { ask: PATIENCE, work: PATIENCE, load: PATIENCE });
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    serving(&fixture);
    let (_stream, generation) = held(&fixture).unwrap();
    let links = fixture.calls("exec");
    fixture.hang(&["exec"]);
    tell(&fixture, &LinkRequest::Renew { generation });
    let mut first = requested(&fixture, GUEST_PROTOCOL).unwrap();
    eventually("a link that hangs", || fixture.calls("exec") > links);
    let others = [(); 3].map(|()| requested(&fixture, GUEST_PROTOCOL).unwrap());
    drop(others);
    assert!(matches!(read_json(&mut first), Ok(LinkReply::Refused { .. })));
    // Whoever was in line before this one has had his turn.
    let mut last = requested(&fixture, GUEST_PROTOCOL).unwrap();
    assert!(matches!(read_json(&mut last), Ok(LinkReply::Refused { .. })));
    assert_eq!(fixture.calls("exec"), links + 2);
    assert_eq!(fixture.hung(), 2);
}

#[test]
fn a_link_over_which_nothing_answers_ends_with_all_its_streams() {
    let fixture = Fixture::linked_with(Patience { ask: PATIENCE, work: PATIENCE, load: PATIENCE });
    fixture.created();
    fixture.runtime.start(&name()).unwrap();
    let process = serving(&fixture);
    let (mut stream, generation) = held(&fixture).unwrap();
    for guest in fixture.processes("stdio") {
        signal(guest, Signal::STOP);
    }
    let outcome = fixture.runtime.exec(&name(), &ExecSpec::new(["true"])).map(drop);
    assert!(matches!(outcome, Err(RuntimeError::NoAnswer { .. })), "{outcome:?}");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let ended = stream.read(&mut [0]);
    assert!(!ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{ended:?}");
    assert_eq!(fixture.link_process(), Some(process));
    assert_ne!(held(&fixture).unwrap().1, generation);
}

/// Its starter was killed once the machine was noted, before the guest knew what to trust.
#[test]
fn it_does_not_serve_what_a_killed_start_left() {
    let fixture = started();
    kill(serving(&fixture));
    eventually("its end", || fixture.link_process().is_none());
    fs::write(fixture.file("life.json"), "\"starting\"").unwrap();
    let links = fixture.calls("exec");
    let second = serde_json::json!({ "secs": 60, "nanos": 0 });
    let config = serde_json::json!({
        "home": &fixture.msb, "name": name(), "msb": fixture.dir.path().join("script"), "guest_program": "any",
        "patience": &second, "rests_after": &second,
    });
    let mut process = Command::new(fixture.dir.path().join("program"));
    let process = process.args(["internal", "link", name().as_str()]).stdin(Stdio::piped());
    let mut process = process.stdout(Stdio::null()).spawn().unwrap();
    serde_json::to_writer(process.stdin.take().unwrap(), &config).unwrap();
    eventually("the end of the process", || process.try_wait().unwrap().is_some());
    assert_eq!(fixture.calls("exec"), links, "it opens no link");
    assert!(!fixture.processes("machine").is_empty(), "the door: the machine is up");
}
