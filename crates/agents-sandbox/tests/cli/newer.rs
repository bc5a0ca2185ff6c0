//! What a newer version of the program left behind: an agent that this one does not know.

use crate::environment::TestEnvironment;

/// A sandbox at rest and its home, as if they were another agent's.
fn of_another_agent(days: i64) -> (TestEnvironment, String) {
    let environment = TestEnvironment::new();
    let known = environment.rested(days);
    let name = known.replace("-opencode", "-not-made-yet");
    let volume = environment.volumes().remove(0);
    let other = volume.replace("-opencode", "-not-made-yet");
    let volumes = environment.path("home/data/agents-sandbox/volumes");
    std::fs::rename(volumes.join(&volume), volumes.join(&other)).unwrap();
    let checkout =
        environment.path("home/state/agents-sandbox").join(known.strip_suffix("-opencode").unwrap());
    std::fs::rename(checkout.join("opencode"), checkout.join("not-made-yet")).unwrap();
    let sandboxes = environment.path("runtime/sandboxes");
    std::fs::rename(sandboxes.join(&known), sandboxes.join(&name)).unwrap();
    for path in [checkout.join("not-made-yet/state.yaml"), sandboxes.join(&name).join("record.json")] {
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("-opencode", "-not-made-yet").replace(r#""opencode""#, r#""not-made-yet""#);
        std::fs::write(path, text).unwrap();
    }
    (environment, name)
}

#[test]
fn a_sandbox_of_an_agent_that_is_not_known_is_listed_and_removed() {
    let (environment, name) = of_another_agent(0);
    let listed = environment.json(&["list", "--format", "json", "--label", "agent=not-made-yet"]);
    assert_eq!(listed[0]["name"], name, "{listed:#}");
    assert_eq!(environment.json(&["sandbox", "inspect", &name])["name"], name);
    let own = environment.run(&["sandbox", "inspect"]);
    assert_eq!(own.code, Some(1), "it is not this folder's own: {own}");
    environment.run(&["sandbox", "remove", &name]).success();
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
    assert_eq!(environment.volumes().len(), 1);
}

#[test]
fn its_home_is_not_pruned() {
    let (environment, name) = of_another_agent(8);
    let plan = environment.json(&["prune", "--dry-run", "--format", "json"]);
    assert_eq!(plan["sandboxes"], serde_json::json!([name]));
    assert_eq!(plan["volumes"], serde_json::json!([]), "{plan:#}");
}

#[test]
fn an_agent_that_is_not_known_is_refused_wherever_it_is_asked_for() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["run", "--agent", "not-made-yet"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.stderr.contains("[possible values: opencode, opencode2, pi, claude-code"), "{ran}");
    environment.write("project/.agents-sandbox/config.yaml", "memory: 4G\nagent: not-made-yet\n");
    let ran = environment.run(&["run"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    for part in ["config.yaml:2", "`not-made-yet` is not one of opencode, opencode2, pi, claude-code"] {
        assert!(ran.stderr.contains(part), "{ran}");
    }
}
