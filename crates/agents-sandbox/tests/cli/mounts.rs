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
        works in the sandbox can make links there: it is in $ROOT/outer, mounted at /a";
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
    let text = "the link $ROOT/project/data, and whoever works in the sandbox can make links there: it is in \
        $ROOT/project, the project's folder";
    assert!(ran.code == Some(1) && ran.stderr.contains(text), "{ran}");
    assert_eq!(mounts(&environment), there, "nothing was made anew");
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
}
