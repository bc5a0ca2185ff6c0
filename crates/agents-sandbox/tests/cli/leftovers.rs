//! What a removed sandbox leaves on disk is there on purpose.

use std::path::Path;

use crate::environment::TestEnvironment;
use crate::serve::stand_in;

/// Files below a folder, sorted; none where it is not there.
fn below(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            files.extend(below(&entry.path()).iter().map(|file| format!("{name}/{file}")));
        } else {
            files.push(name);
        }
    }
    files.sort();
    files
}

/// A sandbox that ran its agent with everything that is recorded of one; its checkout's name.
fn used() -> (TestEnvironment, String) {
    let environment = stand_in("opencode");
    environment.write("home/config/agents-sandbox/opencode/agent/review.md", "look twice");
    environment.write("project/.agents-sandbox/env", "COLOUR=red\n");
    environment.run(&["--yes", "run"]).success();
    let checkout = environment.sandbox().strip_suffix("-opencode").unwrap().to_string();
    for name in ["claims/00.done", "network-told.json", "ssh-agent.log"] {
        environment.write(&format!("home/state/agents-sandbox/{checkout}/opencode/{name}"), "[]");
    }
    (environment, checkout)
}

#[test]
fn of_a_removed_sandbox_the_homes_records_and_the_approvals_stay() {
    let (environment, checkout) = used();
    let state = environment.path("home/state/agents-sandbox");
    let before = below(&state.join(&checkout));
    for name in ["keeper.log", "keeper.lock", "daemon.json", "daemon.lock", "claims/00.done"] {
        assert!(before.contains(&format!("opencode/{name}")), "{name}: {before:?}");
    }
    // Its keeper lives still.
    environment.run(&["sandbox", "remove", "--force"]).success();
    let stays = ["approvals.json", "opencode/provision.json", "opencode/state.yaml"];
    assert_eq!(below(&state.join(&checkout)), stays);
    let locks = below(&state.join("locks").join(&checkout));
    assert!(
        !locks.is_empty() && locks.iter().all(|name| Path::new(name).extension() == Some("lock".as_ref())),
        "{locks:?}"
    );
    // The next run goes on from there, without a question.
    let home = environment.volumes();
    environment.run(&["exec", "true"]).success();
    assert_eq!(environment.volumes(), home);
    // One that rests, by its name.
    environment.run(&["stop", "--cold"]).success();
    environment.run(&["sandbox", "remove", &format!("{checkout}-opencode")]).success();
    assert_eq!(below(&state.join(&checkout)), stays);
}

#[test]
fn of_one_that_goes_with_its_record_only_the_approvals_stay() {
    let (environment, checkout) = used();
    environment.run(&["stop", "-f"]).success();
    let state = environment.path("home/state/agents-sandbox");
    assert_eq!(below(&state.join(&checkout)), ["approvals.json"]);
    environment.run(&["exec", "true"]).success();
    environment.run(&["kill", "-f"]).success();
    assert_eq!(below(&state.join(&checkout)), ["approvals.json"]);
}

/// Of another agent's sandbox nothing goes.
#[test]
fn what_is_another_sandboxs_stays() {
    let (environment, checkout) = used();
    environment.run(&["exec", "--agent", "pi", "true"]).success();
    let folder = environment.path("home/state/agents-sandbox").join(&checkout);
    environment.run(&["sandbox", "remove", "--force", "--agent", "opencode"]).success();
    let of_pi = below(&folder.join("pi"));
    for name in ["keeper.lock", "keeper.log", "state.yaml"] {
        assert!(of_pi.contains(&name.to_string()), "{name}: {of_pi:?}");
    }
}
