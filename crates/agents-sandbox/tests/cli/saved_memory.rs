//! Saved memory that goes: because it is old, because of another image, because of another home.

use serde_json::Value;

use crate::environment::{TestEnvironment, without_hash};
use crate::kept::{asleep, beats, memory};

const DROPPED: &str = "is dropped: the sandbox changes";

fn keep_for_five_days(environment: &TestEnvironment) {
    environment.write("home/config/agents-sandbox/config.yaml", "memory-keep: 5d\n");
}

#[test]
fn prune_drops_memory_that_was_saved_too_long_ago_and_leaves_its_sandbox() {
    let environment = asleep();
    let name = environment.sandbox();
    environment.age(&name, 6);
    // A week is what it is kept for, unless the settings say otherwise.
    assert_eq!(
        environment.run(&["prune", "--yes"]).stderr,
        "there is nothing to remove; `agents-sandbox storage list` says why what is there stays\n"
    );
    keep_for_five_days(&environment);
    let shown = environment.run(&["prune", "--dry-run"]);
    let text = without_hash(&shown.to_string());
    assert!(text.contains("saved memory project-HASH-opencode"), "{text}");
    assert!(shown.stderr.starts_with("would remove 1 saved memory, "), "{shown}");
    let json = environment.json(&["sandbox", "prune", "--dry-run", "--format", "json"]);
    assert_eq!((&json["saved_memories"][0], &json["sandboxes"][0]), (&name.clone().into(), &Value::Null));
    assert_eq!(
        environment.run(&["volume", "prune", "--yes"]).stderr,
        "there is nothing to remove; `agents-sandbox storage list` says why what is there stays\n"
    );
    assert_ne!(memory(&environment), Value::Null, "so far nothing was removed");
    let ran = environment.run(&["prune", "--yes"]);
    assert!(ran.stderr.starts_with("removed 1 saved memory; "), "{ran}");
    assert_eq!((memory(&environment), environment.sandbox()), (Value::Null, name));
    assert_eq!(environment.volumes().len(), 1);
    beats(&environment, false);
    assert_eq!(
        environment.run(&["prune", "--yes"]).stderr,
        "there is nothing to remove; `agents-sandbox storage list` says why what is there stays\n"
    );
}

#[test]
fn a_project_does_not_say_unasked_how_long_memory_is_kept() {
    let environment = asleep();
    environment.age(&environment.sandbox(), 6);
    environment.write("project/.agents-sandbox/config.yaml", "memory-keep: 1s\n");
    let looked = environment.run(&["prune", "--dry-run"]);
    assert!(looked.stderr.contains("not approved: memory-keep"), "{looked}");
    for words in [&["prune"][..], &["prune", "--older-than", "9d"]] {
        let ran = environment.run(words);
        assert!(ran.code != Some(0) && ran.stderr.contains("not approved"), "{ran}");
    }
    assert_ne!(memory(&environment), Value::Null);
}

#[test]
fn a_run_drops_the_old_memory_of_others_and_wakes_its_own() {
    let environment = asleep();
    let name = environment.sandbox();
    keep_for_five_days(&environment);
    environment.age(&name, 6);
    environment.run(&["shell"]).success();
    beats(&environment, true);
    environment.run(&["stop"]).success();
    let other = ["shell", "--agent", "claude-code", "--log-level", "verbose"];
    let ran = environment.run(&other);
    assert!(!ran.stderr.contains("was saved long ago"), "{ran}");
    environment.age(&name, 6);
    let ran = environment.run(&other);
    assert!(ran.stderr.contains(&format!("the memory of {name} was saved long ago and is dropped")), "{ran}");
    beats(&environment, false);
    let list = environment.json(&["list", "--format", "json"]);
    let row = list.as_array().unwrap().iter().find(|row| row["name"] == *name).unwrap();
    assert_eq!(row["saved_memory"], Value::Null, "{list:#}");
}

#[test]
fn a_rebuild_that_gives_another_image_drops_the_memory_and_says_so() {
    let environment = asleep();
    environment.write("runtime-image", "another");
    // Without the wish it wakes as it was.
    let ran = environment.run(&["shell"]);
    assert!(ran.code == Some(0) && !ran.stderr.contains(DROPPED), "{ran}");
    beats(&environment, true);
    environment.run(&["stop"]).success();
    let ran = environment.run(&["shell", "--rebuild"]);
    let text = without_hash(&ran.stderr);
    assert!(text.contains("the saved memory of project-HASH-opencode (") && text.contains(DROPPED), "{ran}");
    assert_eq!(ran.code, Some(0), "{ran}");
    beats(&environment, false);
}

#[test]
fn another_home_drops_the_memory_and_says_so() {
    for verb in ["migrate", "reset"] {
        let environment = asleep();
        environment.run(&["volume", verb]).success();
        let ran = environment.run(&["shell"]);
        assert!(ran.code == Some(0) && ran.stderr.contains(DROPPED), "{verb}: {ran}");
        beats(&environment, false);
        assert_eq!(environment.volumes().len(), 2, "the home that was is kept");
    }
}

#[test]
fn df_counts_saved_memory_by_itself_and_says_why_it_stays() {
    let environment = asleep();
    let name = environment.sandbox();
    let folder = format!("home/data/agents-sandbox/qemu/sandboxes/{name}");
    environment.write(&format!("{folder}/memory.ram"), &"m".repeat(300_000));
    environment.write(&format!("{folder}/memory.state"), &"s".repeat(50_000));
    environment.write(&format!("{folder}/root.ext4"), &"d".repeat(100_000));
    let item = |environment: &TestEnvironment| {
        let items = environment.json(&["storage", "list", "--format", "json"]);
        let mut all = items.as_array().unwrap().iter().filter(|item| item["category"] == "saved memory");
        let one = all.next().unwrap().clone();
        assert_eq!((&one["name"], all.next()), (&name.clone().into(), None), "{items:#}");
        one
    };
    let stays = item(&environment);
    assert_eq!(stays["kept"], "it was saved less than a minute ago; it goes after 7d", "{stays:#}");
    let row = |environment: &TestEnvironment| {
        let df = environment.json(&["df", "--format", "json"]);
        let rows = df["categories"].as_array().unwrap();
        let size = |name: &str, key: &str| {
            rows.iter().find(|row| row["category"] == name).unwrap()[key].as_u64().unwrap()
        };
        assert!((100_000..300_000).contains(&size("private disks", "size")), "{df:#}");
        (size("saved memory", "size"), size("saved memory", "reclaimable"))
    };
    let (size, reclaimable) = row(&environment);
    assert!((350_000..500_000).contains(&size) && reclaimable == 0, "{size} {reclaimable}");
    keep_for_five_days(&environment);
    environment.age(&name, 6);
    assert_eq!(item(&environment)["reclaimable"], true);
    assert_eq!(row(&environment), (size, size));
}
