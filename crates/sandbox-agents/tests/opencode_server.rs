//! The real server of opencode, started here, with a provider that does as it is told: what it says about
//! its sessions must come out as it is.
//!
//! Needs `npm` with a registry, `python3` and `git`. The package is fetched once per target folder.

#![allow(clippy::unwrap_used)]

mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_agents::{
    Events, Notice, Occasion, Server, SessionWatch, activity, create_worktree, health, remove_worktree,
    worktrees,
};
use sandbox_keeper::{AgentView, Decision, Inputs, Rules, decide};
use sandbox_model::{Session, SessionKind};

use server::{OpencodeServer, StandIn};

/// What the keeper of such a sandbox decides, a minute after its last client left, and why.
fn decision(sessions: Vec<Session>, max_session_retries: u32) -> String {
    let idle_since = Instant::now();
    let rules = Rules {
        timeout: Duration::from_secs(10),
        first_lease: Duration::from_secs(5),
        stop_on_active_sessions: false,
        max_session_retries,
        agent_patience: Duration::from_mins(1),
    };
    let now = idle_since + Duration::from_mins(1);
    let agent = &AgentView::Sessions(sessions);
    match decide(&Inputs { now, rules, clients: 0, ever_leased: true, idle_since, keep_until: None, agent }) {
        Decision::Hold(reason) => reason.to_string(),
        Decision::Stop(note) => format!("stop{note}"),
        Decision::StopAt(..) => "later".into(),
    }
}

/// Polls until exactly these sessions are there, by folder and kind; then the keeper decides so.
fn wait_for(server: &OpencodeServer, expected: &[(&Path, SessionKind)], decided: &str) {
    let sessions = sessions(server, expected);
    assert_eq!(decision(sessions, 100), decided);
}

fn sessions(server: &OpencodeServer, expected: &[(&Path, SessionKind)]) -> Vec<Session> {
    let mut expected: Vec<String> =
        expected.iter().map(|(dir, kind)| format!("{} {kind:?}", dir.display())).collect();
    expected.sort();
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut activity = activity(server.client(Duration::from_secs(10)), server.project.to_str().unwrap());
    loop {
        let sessions = activity.poll();
        let mut found: Vec<String> = sessions
            .iter()
            .flatten()
            .map(|session| {
                // How often it has tried by now is not what is tested.
                let kind = match session.kind {
                    SessionKind::Retry { attempt } if attempt > 0 => SessionKind::Retry { attempt: 1 },
                    kind => kind,
                };
                format!("{} {kind:?}", session.directory.as_ref().unwrap().display())
            })
            .collect();
        found.sort();
        match sessions {
            Ok(sessions) if found == expected => return sessions,
            _ => {}
        }
        assert!(
            Instant::now() < deadline,
            "expected {expected:?}, last answer {sessions:?}\n{}",
            server.log()
        );
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn sessions_of_every_folder_are_told_apart() {
    let server = OpencodeServer::start();
    let project = server.project.clone();
    let elsewhere = server.folder("else where");
    wait_for(&server, &[], "stop");

    let (hanging, _) = (server.prompt(&project, "HANG"), server.prompt(&project, "hello"));
    wait_for(&server, &[(&project, SessionKind::Busy)], "held: 1 busy session");

    // Another folder, one that is no part of the project and has a space in its name.
    let asking = server.prompt(&elsewhere, "ASK");
    let both = [(&*project, SessionKind::Busy), (&*elsewhere, SessionKind::WaitingForUser)];
    wait_for(&server, &both, "held: 1 busy session");
    server.abort(&project, &hanging);
    wait_for(&server, &both[1..], "stop: 1 session waits for the user");
    server.answer_question(&elsewhere, &asking, "red");
    wait_for(&server, &[], "stop");

    let failing = server.prompt(&project, "FAIL");
    let retrying = [(&*project, SessionKind::Retry { attempt: 1 })];
    wait_for(&server, &retrying, "held: 1 retrying session");
    assert_eq!(decision(sessions(&server, &retrying), 1), "stop: 1 session retries in vain");
    server.abort(&project, &failing);
    wait_for(&server, &[], "stop");

    // The project's configuration wants to be asked before any command runs.
    server.prompt(&project, "TOOL:true");
    wait_for(&server, &[(&project, SessionKind::WaitingForUser)], "stop: 1 session waits for the user");
}

/// The server keeps what an interrupted turn has asked, for good.
#[test]
fn what_an_interrupted_turn_has_asked_is_waited_for_by_nobody() {
    let server = OpencodeServer::start();
    let project = server.project.clone();
    let waiting = [(&*project, SessionKind::WaitingForUser)];
    for asks in ["ASK", "TOOL:true"] {
        let session = server.prompt(&project, asks);
        wait_for(&server, &waiting, "stop: 1 session waits for the user");
        server.abort(&project, &session);
        wait_for(&server, &[], "stop");
        server.prompt_again(&project, &session, "HANG");
        wait_for(&server, &[(&project, SessionKind::Busy)], "held: 1 busy session");
        server.abort(&project, &session);
        server.prompt_again(&project, &session, asks);
        wait_for(&server, &waiting, "stop: 1 session waits for the user");
        server.abort(&project, &session);
        wait_for(&server, &[], "stop");
    }
}

/// What is told from now on, in the order in which it happens: what is told too much is in the way of the next.
struct Told {
    events: Events,
    watch: SessionWatch,
    seen: Vec<serde_json::Value>,
}

impl Told {
    fn listen(server: &OpencodeServer) -> Self {
        let mut events = Events::open(&server.client(Duration::from_secs(10))).unwrap();
        // Its first word: from here on it tells everything.
        let first = events.hear().unwrap().unwrap();
        assert_eq!(first["payload"]["type"], "server.connected", "{first}");
        Self { events, watch: SessionWatch::default(), seen: Vec::new() }
    }

    fn next(&mut self) -> (String, Occasion) {
        let deadline = Instant::now() + Duration::from_mins(1);
        // A server without anything to tell shows that it lives.
        while Instant::now() < deadline {
            let event = self.events.hear().unwrap().expect("the stream goes on");
            if let Some(Notice::Tell { session, occasion }) = self.watch.see(&event) {
                return (session, occasion);
            }
            self.seen.push(event["payload"].clone());
        }
        panic!("nothing is told of {:#?}", self.seen);
    }
}

#[test]
fn its_events_tell_what_a_person_wants_to_hear() {
    let server = OpencodeServer::start();
    let (project, elsewhere) = (server.project.clone(), server.folder("else where"));
    let mut told = Told::listen(&server);
    let done = server.prompt(&project, "hello");
    assert_eq!(told.next(), (done, Occasion::Done));
    let asking = server.prompt(&elsewhere, "ASK");
    assert_eq!(told.next(), (asking.clone(), Occasion::Input));
    server.answer_question(&elsewhere, &asking, "red");
    assert_eq!(told.next(), (asking, Occasion::Done));
    let failed = server.prompt(&project, "REFUSE");
    assert_eq!(told.next(), (failed, Occasion::Error));
}

/// What is told too much is in the way of the last.
#[test]
fn a_turn_that_the_user_ends_is_not_told_as_done() {
    let server = OpencodeServer::start();
    let project = server.project.clone();
    let mut told = Told::listen(&server);
    let hanging = server.prompt(&project, "HANG");
    wait_for(&server, &[(&project, SessionKind::Busy)], "held: 1 busy session");
    server.abort(&project, &hanging);
    let failing = server.prompt(&project, "FAIL");
    sessions(&server, &[(&project, SessionKind::Retry { attempt: 1 })]);
    server.abort(&project, &failing);

    let asking = server.prompt(&project, "ASK");
    assert_eq!(told.next(), (asking.clone(), Occasion::Input));
    server.abort(&project, &asking);
    let asking = server.prompt(&project, "ASK");
    assert_eq!(told.next(), (asking.clone(), Occasion::Input));
    server.reject_question(&project, &asking);
    let refused = server.prompt(&project, "TOOL:true");
    assert_eq!(told.next(), (refused.clone(), Occasion::Input));
    server.refuse_permission(&project, &refused);
    wait_for(&server, &[], "stop");

    let done = server.prompt(&project, "hello");
    assert_eq!(told.next(), (done, Occasion::Done));
}

#[test]
fn a_wrong_password_is_an_error_and_not_an_idle_agent() {
    let server = OpencodeServer::start();
    assert!(health(&server.client(Duration::from_secs(5))).unwrap().healthy);
    let stranger = server.client_with("wrong", Duration::from_secs(5));
    let error = activity(stranger, server.project.to_str().unwrap()).poll().unwrap_err();
    assert!(error.to_string().contains("status 401"), "{error}");
}

/// Both servers, which have nothing in common but what they do.
#[test]
fn worktrees_are_made_at_a_base_listed_and_removed() {
    let (first, second) = (OpencodeServer::start(), StandIn::start());
    make_worktrees(&first.client(Duration::from_mins(1)), &first.project);
    make_worktrees(&second.client(), &second.project);
}

fn make_worktrees(server: &Server<'_>, project: &Path) {
    let home = project.parent().unwrap().join("home");
    let main = project.to_str().unwrap();
    let git = |dir: &str, words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C", dir]).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    // The server's own, which is not what this is about.
    std::fs::write(project.join(".git/info/exclude"), "opencode.json\n").unwrap();
    for text in ["one", "two"] {
        std::fs::write(project.join("file"), text).unwrap();
        git(main, &["add", "file"]);
        git(main, &["commit", "--quiet", "-m", text]);
    }
    let base = git(main, &["rev-parse", "HEAD~1"]);
    assert_eq!(worktrees(server, main).unwrap(), []);
    let made = create_worktree(server, main, home.to_str().unwrap(), "fix-it", Some(&base)).unwrap();
    assert_eq!(made.name, "fix-it");
    assert!(Path::new(&made.directory).starts_with(&home), "{made:?}");
    let begun = Instant::now();
    while std::fs::read_to_string(Path::new(&made.directory).join("file")).ok().as_deref() != Some("one") {
        assert!(begun.elapsed() < Duration::from_mins(1), "the base does not come");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(git(&made.directory, &["branch", "--show-current"]), "opencode/fix-it");
    assert_eq!(git(main, &["status", "--porcelain"]), "", "the checkout is as it was");
    assert_eq!(worktrees(server, main).unwrap(), std::slice::from_ref(&made));
    remove_worktree(server, main, &made.directory).unwrap();
    assert_eq!(worktrees(server, main).unwrap(), []);
    assert_eq!(git(main, &["branch", "--list", "opencode/*"]), "");
}
