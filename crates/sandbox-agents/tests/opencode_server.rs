//! The real server of opencode, started here, with a provider that does as it is told: what it says about
//! its sessions must come out as it is.
//!
//! Needs `npm` with a registry, `python3` and `git`. The package is fetched once per target folder.

#![allow(clippy::unwrap_used)]

mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_agents::{activity, health};
use sandbox_model::SessionKind;

use server::OpencodeServer;

/// Polls until exactly these sessions are there, by folder and kind.
fn wait_for(server: &OpencodeServer, expected: &[(&Path, SessionKind)]) {
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
        if sessions.is_ok() && found == expected {
            return;
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
    wait_for(&server, &[]);

    let (hanging, _) = (server.prompt(&project, "HANG"), server.prompt(&project, "hello"));
    wait_for(&server, &[(&project, SessionKind::Busy)]);

    // Another folder, one that is no part of the project and has a space in its name.
    let asking = server.prompt(&elsewhere, "ASK");
    wait_for(&server, &[(&project, SessionKind::Busy), (&elsewhere, SessionKind::WaitingForUser)]);
    server.answer_question(&elsewhere, "red");
    server.abort(&project, &hanging);
    wait_for(&server, &[]);

    let failing = server.prompt(&project, "FAIL");
    wait_for(&server, &[(&project, SessionKind::Retry { attempt: 1 })]);
    server.abort(&project, &failing);
    wait_for(&server, &[]);

    // The project's configuration wants to be asked before any command runs.
    server.prompt(&project, "TOOL:true");
    wait_for(&server, &[(&project, SessionKind::WaitingForUser)]);
    drop(asking);
}

#[test]
fn a_wrong_password_is_an_error_and_not_an_idle_agent() {
    let server = OpencodeServer::start();
    assert!(health(&server.client(Duration::from_secs(5))).unwrap().healthy);
    let stranger = server.client_with("wrong", Duration::from_secs(5));
    let error = activity(stranger, server.project.to_str().unwrap()).poll().unwrap_err();
    assert!(error.to_string().contains("status 401"), "{error}");
}
