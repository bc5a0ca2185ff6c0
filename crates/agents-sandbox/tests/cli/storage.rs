//! `df` and the `storage` group.

use std::process::Command;

use crate::environment::TestEnvironment;

/// What the system says of the same folders.
fn du(environment: &TestEnvironment) -> u64 {
    let folders = ["data", "state"].map(|name| environment.path("home").join(name).join("agents-sandbox"));
    let there = folders.iter().filter(|folder| folder.exists());
    let output = Command::new("du").args(["-sc", "--block-size=1"]).args(there).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

/// Some file systems decide only when they write what a file takes.
fn settle(dir: &std::path::Path) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            settle(&entry.path());
        } else if entry.file_type().unwrap().is_file() {
            std::fs::File::open(entry.path()).unwrap().sync_all().unwrap();
        }
    }
}

#[test]
fn the_total_is_what_du_says() {
    let environment = TestEnvironment::new();
    environment.rested(8);
    let image =
        environment.write("home/data/agents-sandbox/qemu/images/ab/rootfs.erofs", &"x".repeat(200_000));
    environment.write("home/data/agents-sandbox/qemu/boot/vmlinux", &"k".repeat(50_000));
    environment.write("home/data/agents-sandbox/engine/storage/layer", &"l".repeat(70_000));
    std::fs::hard_link(&image, environment.path("home/data/agents-sandbox/engine/storage/same")).unwrap();
    settle(&environment.path("home"));
    let json = environment.json(&["df", "--format", "json"]);
    assert_eq!(json["size"].as_u64().unwrap(), du(&environment), "{json:#}");
    let categories = json["categories"].as_array().unwrap();
    let sum: u64 = categories.iter().map(|row| row["size"].as_u64().unwrap()).sum();
    assert_eq!(sum, du(&environment));
    let size =
        |name: &str| categories.iter().find(|row| row["category"] == name).unwrap()["size"].as_u64().unwrap();
    assert!(size("base images") >= 200_000 && size("kernels") >= 50_000, "{json:#}");
    assert!((70_000..200_000).contains(&size("engine images")), "two names of one file are one: {json:#}");
    assert!(size("home volumes") > 1_000_000 && size("logs") > 0, "{json:#}");
    let table = environment.run(&["df"]).success();
    for name in [
        "base images",
        "private disks",
        "saved memory",
        "home volumes",
        "kernels",
        "runtime",
        "engine images",
        "logs",
        "total",
    ] {
        assert!(table.lines().any(|line| line.starts_with(name)), "{table}");
    }
    // Both places have it.
    assert_eq!(environment.json(&["storage", "df", "--format", "json"]), json);
}

#[test]
fn what_prune_would_free_is_what_it_frees() {
    let environment = TestEnvironment::new();
    environment.rested(8);
    let reclaimable = |words: &[&str]| environment.json(words)["reclaimable"].as_u64().unwrap();
    assert_eq!(reclaimable(&["df", "--format", "json", "--older-than", "9d"]), 0);
    settle(&environment.path("home"));
    let promised = reclaimable(&["df", "--format", "json"]);
    let before = du(&environment);
    environment.run(&["prune", "--yes"]).success();
    let freed = before - du(&environment);
    // Folders and small records come and go on top.
    assert!(promised > 1_000_000 && freed.abs_diff(promised) < 100_000, "{promised} {freed}");
}

#[test]
fn each_thing_has_a_reason_to_stay() {
    let environment = TestEnvironment::new();
    let name = environment.rested(2);
    let items = environment.json(&["storage", "list", "--format", "json"]);
    let home =
        items.as_array().unwrap().iter().find(|item| {
            item["category"] == "home volumes" && item["name"].as_str().unwrap().starts_with(&name)
        });
    let home = home.unwrap();
    assert_eq!(home["kept"], format!("sandbox {name} mounts it"), "{home:#}");
    environment.run(&["sandbox", "remove", &name]).success();
    let table = environment.run(&["storage", "list"]).success();
    assert!(table.contains(&format!("it is the current home of {name}, which has no sandbox")), "{table}");
}

#[test]
fn nothing_at_all_is_no_error() {
    let environment = TestEnvironment::new();
    assert_eq!(environment.json(&["df", "--format", "json"])["reclaimable"], 0);
}
