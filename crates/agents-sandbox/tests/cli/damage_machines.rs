//! Broken files of real machines and of real image builds, whose lists need neither QEMU nor an engine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::damage::{ALL, Damage, LISTS, Whole, look, works_or_says};
use crate::environment::{Ran, TestEnvironment};

fn real(environment: &TestEnvironment, words: &[&str]) -> Ran {
    let mut command = environment.command(words);
    command.env_remove("AGENTS_SANDBOX_FAKE_RUNTIME").env("AGENTS_SANDBOX_RUNTIME", "qemu");
    environment.finish(&mut command)
}

#[test]
fn broken_files_of_machines_break_one_row() {
    let environment = TestEnvironment::new();
    let qemu = "home/data/agents-sandbox/qemu";
    let digest = "a".repeat(64);
    let files = [
        format!("{qemu}/sandboxes/one-4chyvv5c1qh507-opencode/sandbox.json"),
        format!("{qemu}/images/{digest}/image.json"),
        format!("{qemu}/references/{digest}.json"),
        format!("{qemu}/kvm.json"),
        format!("{qemu}/qemu.json"),
        "home/data/agents-sandbox/msb/installed.json".into(),
        "home/state/agents-sandbox/microsandbox.json".into(),
    ];
    for file in &files {
        for damage in ALL {
            let path = environment.write(file, "{\"half\": tru");
            let mut parent = path.parent().unwrap();
            while parent != environment.path("home") {
                fs::set_permissions(parent, fs::Permissions::from_mode(0o700)).unwrap();
                parent = parent.parent().unwrap();
            }
            let whole = Whole::break_it(&environment, &path, damage);
            let before = look(&path);
            for words in LISTS {
                let ran = real(&environment, words);
                assert_eq!(ran.code, Some(0), "{file} {damage:?}: {words:?}: {ran}");
            }
            assert_eq!(look(&path), before, "{file} {damage:?}: a list changed it");
            if file.ends_with("/sandbox.json") && damage != Damage::Foreign {
                let shown = real(&environment, &["list"]).to_string();
                assert!(shown.contains("one-4chyvv5c1qh507-opencode"), "{damage:?}: {shown}");
                let ran = real(&environment, &["stop", "one-4chyvv5c1qh507-opencode"]);
                works_or_says(&ran, "a machine's record");
                assert_eq!(ran.code, Some(1), "{ran}");
                let newer = ran.stderr.contains("hint: a newer version of this program wrote it");
                assert_eq!(newer, damage == Damage::OtherVersion, "{damage:?}: {ran}");
            }
            whole.put_back();
            fs::remove_file(&path).unwrap();
        }
        let _ = fs::remove_dir_all(environment.path(file).parent().unwrap());
    }
}

/// A QEMU machine at rest with saved memory, as far as files tell; its name and folder.
fn machine(environment: &TestEnvironment) -> (String, String) {
    let name = environment.rested(0);
    let fake = fs::read(environment.path("runtime/sandboxes").join(&name).join("record.json")).unwrap();
    let fake: serde_json::Value = serde_json::from_slice(&fake).unwrap();
    let dir = format!("home/data/agents-sandbox/qemu/sandboxes/{name}");
    let record = serde_json::json!({ "version": 1, "spec": fake["spec"], "created": fake["created"] });
    let files = [
        ("sandbox.json", record.to_string()),
        ("root.ext4", "a disk".into()),
        ("machine.lock", format!("{:<15}\n", "stopped")),
        ("change.lock", "process 1 (change)".into()),
        ("memory.lock", "process 1 (memory)".into()),
        ("memory.json", "{\"version\": 2}".into()),
        ("memory.ram", "memory".into()),
        ("memory.state", "state".into()),
        ("problem", "it fell over".into()),
    ];
    for (file, text) in files {
        let path = environment.write(&format!("{dir}/{file}"), &text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let mut folder = environment.path(&dir);
    while folder != environment.path("home") {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        folder = folder.parent().unwrap().into();
    }
    (name, dir)
}

#[test]
fn a_broken_lock_or_memory_breaks_one_machine() {
    let environment = TestEnvironment::new();
    let (name, dir) = machine(&environment);
    let shown = real(&environment, &["list"]).success();
    assert!(shown.contains(&name) && shown.contains("stopped"), "{shown}");
    for file in
        ["machine.lock", "change.lock", "memory.lock", "memory.json", "memory.ram", "memory.state", "problem"]
    {
        for damage in ALL {
            let path = environment.path(&dir).join(file);
            let what = format!("{file} {damage:?}");
            let whole = Whole::break_it(&environment, &path, damage);
            let before = look(&path);
            for words in LISTS {
                let ran = real(&environment, words);
                assert_eq!(ran.code, Some(0), "{what}: {words:?}: {ran}");
            }
            let shown = real(&environment, &["list"]).success();
            assert!(shown.contains(&name), "{what}: {shown}");
            for words in [&["sandbox", "inspect", &name], &["stop", &name][..], &["kill", &name]] {
                works_or_says(&real(&environment, words), &format!("{what}: {words:?}"));
            }
            assert_eq!(look(&path), before, "{what}: it was changed");
            whole.put_back();
        }
    }
}

/// Folders and files in each other's place: no build begins, and what is wrong is named.
#[test]
fn what_stands_in_the_way_of_a_build_is_named() {
    let environment = TestEnvironment::new();
    let slug = environment.rested(0).strip_suffix("-opencode").unwrap().to_string();
    let data = environment.path("home/data/agents-sandbox");
    let locks = environment.path("home/state/agents-sandbox/locks");
    fs::create_dir(data.join("engine")).unwrap();
    let build = locks.join(slug).join("opencode.build.lock");
    for (path, damage) in [
        (locks.join("images.lock"), Damage::Folder),
        (build.clone(), Damage::Folder),
        (locks.join("base.lock"), Damage::Folder),
        (data.join("engine"), Damage::Empty),
    ] {
        if !path.exists() {
            fs::write(&path, "").unwrap();
        }
        let whole = Whole::break_it(&environment, &path, damage);
        let mut command = environment.command(&["build"]);
        command.env_remove("AGENTS_SANDBOX_FAKE_RUNTIME").env("AGENTS_SANDBOX_IMAGE_ENGINE", "buildah");
        let ran = environment.finish(&mut command);
        works_or_says(&ran, &path.display().to_string());
        assert_eq!(ran.code, Some(1), "{ran}");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(ran.stderr.contains(name), "{name}: {ran}");
        assert!(path.exists(), "{name}: {ran}");
        whole.put_back();
    }
}

/// Others make, rename and remove sandboxes and files all the while.
#[test]
fn what_comes_and_goes_breaks_no_list() {
    let environment = TestEnvironment::new();
    let (name, dir) = machine(&environment);
    let (own, record) = (environment.path(&dir), environment.path(&dir).join("sandbox.json"));
    let record = fs::read(record).unwrap();
    let sandboxes = own.parent().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let aside = sandboxes.join(".new-other");
                fs::create_dir_all(&aside).unwrap();
                fs::set_permissions(&aside, fs::Permissions::from_mode(0o700)).unwrap();
                fs::write(aside.join("sandbox.json"), &record).unwrap();
                fs::set_permissions(aside.join("sandbox.json"), fs::Permissions::from_mode(0o600)).unwrap();
                let place = sandboxes.join(format!("other-{number}"));
                fs::rename(&aside, &place).unwrap();
                fs::write(own.join("memory.ram.new"), "half").unwrap();
                fs::rename(&place, sandboxes.join(".gone-other")).unwrap();
                fs::remove_dir_all(sandboxes.join(".gone-other")).unwrap();
                fs::remove_file(own.join("memory.ram.new")).unwrap();
            }
        });
        let looked = std::panic::catch_unwind(|| {
            for _ in 0..10 {
                for words in LISTS {
                    let ran = real(&environment, words);
                    assert_eq!(ran.code, Some(0), "{words:?}: {ran}");
                }
                let rows = real(&environment, &["list", "--format", "json"]).success();
                let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
                assert!(rows.iter().any(|row| row["name"] == *name), "{rows:#?}");
                assert!(rows.iter().all(|row| row["status"] == "stopped"), "a broken row: {rows:#?}");
            }
        });
        done.store(true, Ordering::Relaxed);
        looked.unwrap();
    });
}
