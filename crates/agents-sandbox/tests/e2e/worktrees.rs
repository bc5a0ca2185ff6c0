//! git worktrees: of the host in the guest, of the guest on the host, and of opencode beside the checkout.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::provider::Provider;
use crate::world::World;
use crate::{FIRST_PATIENCE, PATIENCE};

/// As long as the guest may believe what it knew.
const BELIEF: Duration = Duration::from_millis(1500);

#[test]
fn worktrees_work_on_both_sides_and_leave_the_checkout_alone() {
    let provider = Provider::start();
    let world = World::new("trees");
    world.use_provider(provider.port);
    world.write(".git/info/exclude", ".agents-sandbox\ntrees\n");
    for text in ["one", "two"] {
        world.write("file.txt", text);
        world.git(".", &["add", "file.txt"]);
        world.git(".", &["commit", "--quiet", "-m", text]);
    }
    world.git(".", &["worktree", "add", "--quiet", "trees/host"]);
    let inside = |script: &str| world.succeeds(&["exec", "--", "sh", "-c", script], FIRST_PATIENCE);
    let commit = "git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m guest";
    assert_eq!(
        inside(&format!("cd trees/host && git status --porcelain && {commit} && pwd")),
        "/workspace/trees/host\n"
    );
    assert_eq!(world.git("trees/host", &["log", "-1", "--format=%s"]), "guest");
    inside("git worktree add --quiet trees/guest");
    assert_eq!(world.git("trees/guest", &["status", "--porcelain"]), "");
    world.git("trees/guest", &["commit", "--quiet", "--allow-empty", "-m", "host"]);
    std::thread::sleep(BELIEF);
    assert_eq!(inside("git -C trees/guest log -1 --format=%s"), "host\n");
    assert!(world.git(".", &["worktree", "list"]).contains("trees/guest"));

    elsewhere(&world, commit);

    let refused = world.spawn(&["run", "-w", "other:no-such-branch", "--", "run", "hello"]);
    let refused = refused.wait_with_output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("`no-such-branch` is no commit of this repository"), "{said}");

    let task = "TOOL:cat file.txt > seen.txt";
    world.succeeds(&["run", "-w", "fix-it:HEAD~1", "--", "run", task], PATIENCE);
    let listed = world.succeeds(&["worktree", "list", "--format", "json"], PATIENCE);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let [tree] = listed.as_slice() else { panic!("only one was made: {listed:?}") };
    assert_eq!(tree["name"], "fix-it");
    let folder = tree["directory"].as_str().unwrap();
    assert_eq!(
        inside(&format!("cat {folder}/seen.txt && git -C {folder} branch --show-current")),
        "oneopencode/fix-it\n"
    );
    assert_eq!(world.git(".", &["status", "--porcelain"]), "", "the checkout is as it was");

    stays(&world, "changes that are not committed (1 file)");
    inside(&format!("cd {folder} && git add --all && {commit}"));
    stays(&world, "1 commit that only its branch `opencode/fix-it` has");
    world.succeeds(&["worktree", "remove", "--force", "fix-it"], PATIENCE);
    assert_eq!(world.git(".", &["branch", "--list", "opencode/*"]), "");
}

/// `fix-it` is not removed, because it has this.
fn stays(world: &World, held: &str) {
    let output = world.spawn(&["worktree", "remove", "fix-it"]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(held), "{said}");
}

/// A worktree in another folder than its repository has a sandbox of its own, and the repository is in it.
fn elsewhere(world: &World, commit: &str) {
    let tree = world.beside("elsewhere");
    let tree = tree.to_str().unwrap();
    world.git(".", &["worktree", "add", "--quiet", tree]);
    let inside = |script: &str| {
        let mut command = world.command(World::program());
        command.args(["exec", "--", "sh", "-c", script]).current_dir(tree);
        command.env("AGENTS_SANDBOX_MEMORY", "1G");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(inside(&format!("git status --porcelain && {commit} && pwd")), "/workspace\n");
    assert_eq!(world.git(tree, &["log", "-1", "--format=%s"]), "guest");
    assert_eq!(world.git(tree, &["status", "--porcelain"]), "");
    // One that is made there works here, and what only the host sees survives the guest's tidying, also what is made
    // while the guest runs.
    let later = world.beside("later");
    let later = later.to_str().unwrap();
    world.git(".", &["worktree", "add", "--quiet", later]);
    inside(
        "git worktree add --quiet trees/inner && \
         touch -d '1 year ago' \"$(git rev-parse --git-common-dir)\"/worktrees/guest/* && \
         git gc --quiet && git worktree prune",
    );
    let inner = format!("{tree}/trees/inner");
    world.git(&inner, &["commit", "--quiet", "--allow-empty", "-m", "host"]);
    std::thread::sleep(BELIEF);
    assert_eq!(inside("git -C trees/inner log -1 --format=%s"), "host\n");
    let listed = world.git(".", &["worktree", "list"]);
    let whole = [&*inner, "trees/guest", later].iter().all(|tree| listed.contains(*tree));
    assert!(whole && !listed.contains("prunable"), "{listed}");
    assert_eq!(world.git(later, &["status", "--porcelain"]), "");
    world.git(".", &["worktree", "remove", later]);
    // One that is removed there with nothing but `rm` is lost there too: nothing stands for it after the next boot.
    inside("git worktree add --quiet --detach ~/mine");
    inside("true");
    inside("rm -r ~/mine");

    // Relative pointers, as git can write them: they lead elsewhere from the workspace.
    let private = "../trees-project/.git/worktrees/trees-project-elsewhere";
    std::fs::write(format!("{tree}/.git"), format!("gitdir: {private}\n")).unwrap();
    assert_eq!(world.git(tree, &["status", "--porcelain"]), "");
    let mut stop = world.command(World::program());
    assert!(stop.args(["stop", "--cold"]).current_dir(tree).status().unwrap().success());
    assert_eq!(inside("git log -1 --format=%s && test ! -e ~/mine && echo gone"), "guest\ngone\n");
    world.git(".", &["worktree", "remove", "--force", &inner]);
    assert!(stop.status().unwrap().success());
    world.git(".", &["worktree", "remove", "--force", tree]);
}
