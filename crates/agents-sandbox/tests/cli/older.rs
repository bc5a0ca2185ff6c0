//! Names of earlier versions, with the vendor's prefix: found and reused.

use crate::environment::TestEnvironment;

const OLD_SANDBOX: &str = "agents-sandbox-vm-";
const OLD_VOLUME: &str = "agents-sandbox-home-";

/// A sandbox and a home volume at rest, under the names that an earlier version gave them.
fn aged() -> (TestEnvironment, String) {
    let environment = TestEnvironment::new();
    let name = environment.rested(0);
    let old = format!("{OLD_SANDBOX}{name}");
    let volumes = environment.path("home/data/agents-sandbox/volumes");
    let volume = environment.volumes().remove(0);
    let old_volume = format!("{OLD_VOLUME}{volume}");
    std::fs::rename(volumes.join(&volume), volumes.join(&old_volume)).unwrap();
    let rename = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let stem = volume.strip_suffix(".ext4").unwrap();
        std::fs::write(path, text.replace(stem, old_volume.strip_suffix(".ext4").unwrap())).unwrap();
    };
    let checkout = name.strip_suffix("-opencode").unwrap();
    rename(environment.path("home/state/agents-sandbox").join(checkout).join("opencode/state.yaml"));
    let sandboxes = environment.path("runtime/sandboxes");
    std::fs::rename(sandboxes.join(&name), sandboxes.join(&old)).unwrap();
    let record = sandboxes.join(&old).join("record.json");
    rename(record.clone());
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    json["spec"]["name"] = old.clone().into();
    std::fs::write(&record, json.to_string()).unwrap();
    (environment, old)
}

#[test]
fn a_sandbox_and_a_home_are_reused_under_their_old_names() {
    let (environment, old) = aged();
    assert_eq!(environment.sandbox(), old);
    assert_eq!(environment.run(&["exec", "--", "sh", "-c", "exit 5"]).code, Some(5));
    assert_eq!(environment.sandbox(), old, "nothing was made beside it");
    let volumes = environment.volumes();
    assert!(volumes.len() == 1 && volumes[0].starts_with(OLD_VOLUME), "{volumes:?}");
    assert_eq!(environment.json(&["sandbox", "inspect"])["name"], old);
    assert!(environment.run(&["logs", "keeper"]).success().contains("held by 1 client"));
    let ran = environment.run(&["stop", "--cold"]);
    assert_eq!(ran.stderr, format!("{old} is stopped\n"), "{ran}");
    assert_eq!(
        environment
            .json(&["list", "--format", "json", "--label", "agent=opencode"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn one_made_anew_gets_todays_name_and_keeps_its_home() {
    let (environment, old) = aged();
    environment.run(&["shell", "--disk-size", "5G"]).success();
    assert_eq!(format!("{OLD_SANDBOX}{}", environment.sandbox()), old);
    let volumes = environment.volumes();
    assert!(volumes.len() == 1 && volumes[0].starts_with(OLD_VOLUME), "{volumes:?}");
}

#[test]
fn the_old_names_are_pruned_and_removed_like_todays() {
    let (environment, old) = aged();
    environment.age(&old, 8);
    let plan = environment.json(&["prune", "--dry-run", "--format", "json"]);
    assert_eq!((&plan["sandboxes"][0], plan["volumes"].as_array().unwrap().len()), (&old.clone().into(), 1));
    environment.run(&["kill", "-f"]).success();
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
    let (environment, old) = aged();
    environment.run(&["sandbox", "remove", &old]).success();
    assert_eq!(environment.volumes().len(), 1);
}

/// Labels decide, not what a name looks like.
#[test]
fn a_sandbox_without_our_labels_is_nobodys() {
    let (environment, old) = aged();
    environment.age(&old, 900);
    let record = environment.path("runtime/sandboxes").join(&old).join("record.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    json["spec"]["labels"] = serde_json::json!({});
    std::fs::write(&record, json.to_string()).unwrap();
    let plan = environment.json(&["prune", "--dry-run", "--format", "json"]);
    assert_eq!(plan["sandboxes"].as_array().unwrap().len(), 0, "{plan:#}");
}
