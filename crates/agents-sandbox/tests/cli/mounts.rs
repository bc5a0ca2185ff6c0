//! Which folders of this computer a mount may be, where whoever works in the sandbox can write others.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

const USER: &str = "home/config/agents-sandbox/config.yaml";

fn mounts(environment: &TestEnvironment) -> Value {
    environment.json(&["sandbox", "inspect"])["spec"]["mounts"].clone()
}

/// What a guest does that can write the folder around `folder`.
fn exchange(folder: &Path, target: &Path) {
    fs::rename(folder, folder.with_extension("moved")).unwrap();
    symlink(target, folder).unwrap();
}

#[test]
fn a_link_that_the_sandbox_made_brings_no_other_folder_in() {
    let environment = TestEnvironment::new();
    let (outer, secret) = (environment.path("outer"), environment.path("home/.ssh"));
    fs::create_dir_all(outer.join("sub")).unwrap();
    fs::create_dir_all(environment.project().join("data/deep")).unwrap();
    fs::create_dir_all(secret.join("deep")).unwrap();
    let both = format!("mounts:\n  /a: {0}\n  /b: {0}/sub\n", outer.display());
    environment.write(USER, &both);
    environment.run(&["exec", "true"]).success();
    let there = json!([
        { "target": "/a", "source": "$ROOT/outer", "readonly": false },
        { "target": "/b", "source": "$ROOT/outer/sub", "readonly": false },
    ]);
    assert_eq!(mounts(&environment), there, "without a link");
    environment.run(&["stop", "--cold"]).success();
    exchange(&outer.join("sub"), &secret);
    let ran = environment.run(&["exec", "true"]);
    let text = "$ROOT/outer/sub, which is to be mounted at /b, leads through the link $ROOT/outer/sub, and whoever \
        works in a sandbox can make links there: it is in $ROOT/outer, mounted at /a";
    assert!(ran.stderr.contains(text), "{ran}");
    for words in [&["run", "--dry-run"][..], &["run"], &["shell"]] {
        let ran = environment.run(words);
        assert!(ran.code == Some(1) && ran.stderr.contains("leads through the link"), "{ran}");
    }
    assert_eq!(mounts(&environment), there, "nothing was made anew");

    // A folder of the checkout, and a link in the middle of the path.
    let deep = environment.project().join("data/deep");
    environment.write(USER, &format!("mounts:\n  /b: {}\n", deep.display()));
    environment.run(&["exec", "true"]).success();
    let there = json!([{ "target": "/b", "source": "$ROOT/project/data/deep", "readonly": false }]);
    assert_eq!(mounts(&environment), there, "without a link");
    environment.run(&["stop", "--cold"]).success();
    exchange(&environment.project().join("data"), &secret);
    let ran = environment.run(&["exec", "true"]);
    let text = "the link $ROOT/project/data, and whoever works in a sandbox can make links there: it is in \
        $ROOT/project, the project's folder";
    assert!(ran.code == Some(1) && ran.stderr.contains(text), "{ran}");
    assert_eq!(mounts(&environment), there, "nothing was made anew");
}

/// Another project's sandbox made the link, or this one while it had a wider mount.
#[test]
fn a_link_in_what_any_sandbox_ever_wrote_brings_no_other_folder_in() {
    let environment = TestEnvironment::new();
    let (library, secret) = (environment.path("library"), environment.path("home/.ssh"));
    fs::create_dir_all(library.join("out")).unwrap();
    fs::create_dir_all(environment.path("data/part")).unwrap();
    fs::create_dir_all(&secret).unwrap();
    let mut command = environment.command(&["exec", "true"]);
    environment.finish(command.current_dir(&library)).success();
    for (folder, before) in [(library.join("out"), None), (environment.path("data/part"), Some("data"))] {
        let mount = |source: &Path| {
            environment.write(USER, &format!("mounts:\n  /m: {}\n", source.display()));
            environment.run(&["exec", "true"])
        };
        if let Some(wide) = before {
            mount(&environment.path(wide)).success();
            environment.run(&["stop", "--cold"]).success();
        }
        mount(&folder).success();
        environment.run(&["stop", "--cold"]).success();
        exchange(&folder, &secret);
        let ran = mount(&folder);
        let around = folder.parent().unwrap().strip_prefix(environment.path("")).unwrap().display();
        let text = format!("it is in $ROOT/{around}, which a sandbox writes, or wrote");
        assert!(ran.code == Some(1) && ran.stderr.contains(&text), "{ran}");
        // Another way to the same folder: the user's own, straight to it.
        symlink("home/.ssh", environment.path("mine")).unwrap();
        mount(&environment.path("mine")).success();
        environment.run(&["stop", "--cold"]).success();
        fs::remove_file(environment.path("mine")).unwrap();
    }
}

/// What is copied into the home is read through no link that whoever has the folder to write can make.
#[test]
fn a_link_in_a_mount_brings_no_file_into_the_home() {
    let environment = TestEnvironment::new();
    environment.write("home/.claude/commands/plain.md", "mine");
    let secret = environment.write("home/.ssh/id", "private");
    symlink(secret, environment.path("home/.claude/commands/x.md")).unwrap();
    let copied = |mounts: &str| {
        environment.write(USER, mounts);
        let script = "cat ~/.claude/commands/*";
        let seen = environment.run(&["exec", "--agent", "claude-code", "--", "sh", "-c", script]).success();
        environment.run(&["stop", "--cold", "--agent", "claude-code"]).success();
        seen
    };
    assert_eq!(copied("memory: 1G\n"), "mineprivate", "a link of the user's");
    let source = environment.path("home/.claude");
    assert_eq!(copied(&format!("mounts:\n  /claude: {}\n", source.display())), "mine");
    assert_eq!(copied("memory: 1G\n"), "mine", "it may have been made meanwhile");
}

#[test]
fn a_link_of_the_users_own_is_followed() {
    let environment = TestEnvironment::new();
    fs::create_dir_all(environment.path("real/below")).unwrap();
    symlink("real", environment.path("link")).unwrap();
    environment.write(USER, &format!("mounts:\n  /b: {}\n", environment.path("link/below").display()));
    environment.run(&["exec", "true"]).success();
    let there = json!([{ "target": "/b", "source": "$ROOT/real/below", "readonly": false }]);
    assert_eq!(mounts(&environment), there);
}

#[test]
fn what_is_only_read_cannot_be_written_another_way() {
    let environment = TestEnvironment::new();
    let source = environment.path("src");
    fs::create_dir_all(source.join("vendor")).unwrap();
    fs::create_dir_all(environment.path("other")).unwrap();
    fs::create_dir_all(environment.project().join("docs")).unwrap();
    let ask = |wide: &str, narrow: &Path| {
        let (source, narrow) = (source.display(), narrow.display());
        environment.write(
            USER,
            &format!("mounts:\n  /src: {{source: {source}{wide}}}\n  /src/vendor: {{source: {narrow}, readonly: true}}\n"),
        );
        environment.run(&["run", "--dry-run"])
    };
    let ran = ask("", &source.join("vendor"));
    let text = "it is in $ROOT/src, mounted at /src, which the sandbox can write";
    assert!(ran.code == Some(1) && ran.stderr.contains(text), "{ran}");
    assert!(ask("", &source).stderr.contains("it is $ROOT/src, mounted at /src"));
    // Both are only read; it is another folder; or it lies around the project, which stays writable.
    ask(", readonly: true", &source.join("vendor")).success();
    ask("", &environment.path("other")).success();
    environment.write(
        USER,
        &format!("mounts:\n  /all: {{source: {}, readonly: true}}\n", environment.path("").display()),
    );
    environment.run(&["run", "--dry-run"]).success();
    // One for all projects, and this project is it.
    ask("", &environment.project().join("docs")).success();
    let ran = environment.run(&["shell"]);
    let text = "$ROOT/project/docs is read-only at /src/vendor, and in the project's folder, where the sandbox can write it";
    assert!(ran.code == Some(0) && ran.stderr.contains(text), "{ran}");
    let ran = environment.run(&["shell"]);
    assert!(!ran.stderr.contains("is read-only at"), "the sandbox has it already: {ran}");
}
