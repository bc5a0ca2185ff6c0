use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use sandbox_lifecycle::{HomeMapping, Provisioned, Repository, Up, UpRequest, provision, startup_hooks};
use sandbox_model::ExecSpec;
use sandbox_runtime::Runtime;
use sandbox_state::{ProvisionRecord, read_record};

use crate::Case;
use crate::lab::Lab;

pub const CASES: &[Case] = &[
    ("configuration_is_copied_when_it_changes_and_removed_when_it_is_gone", copies),
    ("a_thousand_files_are_one_transfer", thousand),
    ("hooks_are_given_out_once_a_boot", hooks),
    ("a_boot_with_nothing_to_do_runs_no_command", nothing_to_do),
    ("an_interrupted_boot_keeps_its_hooks_and_later_worktrees_are_seen_to", worktrees),
];

fn guest_file(lab: &Lab, path: &str) -> String {
    guest(lab, &format!("cat ~/'{path}'"))
}

fn guest(lab: &Lab, script: &str) -> String {
    let spec = ExecSpec::new(["sh", "-c", script]);
    let collected = lab.runtime.exec(&lab.name(), &spec).unwrap().collect().unwrap();
    String::from_utf8(collected.stdout).unwrap()
}

fn copies() {
    let lab = Lab::new();
    let up = lab.up();
    let (context, mut request) = (lab.context(), lab.request());
    let done = |request: &UpRequest| provision(&context, request, &up).unwrap().0;
    let changed = |written, removed| Provisioned::Changed { written, removed };
    assert_eq!(done(&request), Provisioned::Unchanged);

    let user = context.layout.config.join("opencode");
    fs::create_dir_all(user.join("agent")).unwrap();
    fs::write(user.join("opencode.json"), r#"{"model":"a","x":{"y":1}}"#).unwrap();
    fs::write(user.join("agent/review.md"), "review").unwrap();
    let project = request.project.config_dir.join("opencode");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("opencode.json"), r#"{"model":"b"}"#).unwrap();
    // The agent writes the project: a link there must not reach what the sandbox does not have.
    let secret = lab.dir.join("secret");
    fs::write(&secret, "private").unwrap();
    symlink(&secret, project.join("notes.md")).unwrap();

    assert_eq!(done(&request), changed(2, 0));
    let merged: serde_json::Value =
        serde_json::from_str(&guest_file(&lab, ".config/opencode/opencode.jsonc")).unwrap();
    assert_eq!(merged, serde_json::json!({ "model": "b", "x": { "y": 1 } }));
    assert_eq!(guest_file(&lab, ".config/opencode/agent/review.md"), "review");
    assert_eq!(guest_file(&lab, ".config/opencode/notes.md"), "");
    assert!(lab.said.all().contains("notes.md is a symbolic link"), "{}", lab.said.all());
    assert_eq!(done(&request), Provisioned::Unchanged);

    fs::write(user.join("agent/review.md"), "review again").unwrap();
    assert_eq!(done(&request), changed(1, 0));
    assert_eq!(guest_file(&lab, ".config/opencode/agent/review.md"), "review again");

    // What is gone from the host goes from the home, the folder with it; what the agent made stays.
    fs::remove_file(user.join("agent/review.md")).unwrap();
    assert_eq!(done(&request), changed(0, 1));
    assert_eq!(guest(&lab, "cd ~/.config/opencode && ls"), "opencode.jsonc\n");

    // A mapping with its bits, even where the umask would take some.
    let tools = lab.dir.join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("a b"), "x").unwrap();
    for (path, mode) in [(tools.join("a b"), 0o775), (tools.clone(), 0o770)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mapping = |source| HomeMapping { source, startup: false, root: false };
    request.provision.home.insert(".tools".into(), mapping(tools));
    assert_eq!(done(&request), changed(2, 0));
    assert_eq!(
        guest(&lab, "stat -c '%a %n' ~/.tools ~/.tools/* | sed \"s|$HOME/||\""),
        "770 .tools\n775 .tools/a b\n"
    );
    request.provision.home.clear();
    assert_eq!(done(&request), changed(0, 1));
    assert_eq!(guest(&lab, "ls -d ~/.tools 2>&1 | grep -c 'No such'"), "1\n");
}

fn thousand() {
    let lab = Lab::new();
    let up = lab.up();
    let (context, request) = (lab.context(), lab.request());
    let user = context.layout.config.join("opencode/skill");
    fs::create_dir_all(&user).unwrap();
    for number in 0..1000 {
        fs::write(user.join(format!("{number}.md")), format!("skill {number}")).unwrap();
    }
    let done = provision(&context, &request, &up).unwrap().0;
    assert_eq!(done, Provisioned::Changed { written: 1000, removed: 0 });
    assert_eq!(guest(&lab, "ls ~/.config/opencode/skill | wc -l"), "1000\n");
}

fn hooks() {
    let lab = Lab::new();
    let up = lab.up();
    let (context, mut request) = (lab.context(), lab.request());
    fs::create_dir(lab.dir.join("project/src")).unwrap();
    let script = lab.dir.join("script");
    fs::write(&script, "#!/usr/bin/env bash\necho \"${BASH_VERSION:+bash} $(basename \"$0\")\"").unwrap();
    let mapping = HomeMapping { source: script, startup: true, root: false };
    request.provision.home.insert("bin/prepare it".into(), mapping);
    let ask = |request: &UpRequest, up: &Up| {
        let (_, assembly) = provision(&context, request, up).unwrap();
        startup_hooks(&context, request, up, &assembly, None).unwrap()
    };
    let hooks = ask(&request, &up);
    assert_eq!(hooks.iter().map(|hook| hook.target.as_str()).collect::<Vec<_>>(), ["bin/prepare it"]);
    let ran = lab.runtime.exec(&lab.name(), &hooks[0].command).unwrap().collect().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "bash prepare it\n", "{ran:?}");
    assert!(ask(&request, &up).is_empty(), "each boot has its hooks once");
    drop(up);
    sandbox_lifecycle::stop(&context, &request.target(), false).unwrap();
    let up = sandbox_lifecycle::up(&context, &request).unwrap();
    assert_eq!(ask(&request, &up).len(), 1);
    drop(up);
    sandbox_lifecycle::stop(&context, &request.target(), false).unwrap();
    request.settings.sleep = true;
    let up = sandbox_lifecycle::up(&context, &request).unwrap();
    let boot = up.boot_id.clone();
    assert_eq!(ask(&request, &up).len(), 1);
    drop(up);
    assert!(sandbox_lifecycle::rest(&context, &request.target()).unwrap().asleep);
    let up = sandbox_lifecycle::up(&context, &request).unwrap();
    assert_ne!(up.boot_id, boot);
    assert!(ask(&request, &up).is_empty(), "what hooks started goes on in a guest that wakes");
}

fn nothing_to_do() {
    let lab = Lab::new();
    let (context, mut request) = (lab.context(), lab.request());
    // A path that is there, in the guest too, and stays: the guest's `/tmp`, where others of these lie, does not.
    let lasting = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let passing = std::mem::replace(&mut request.project.root, lasting.clone());
    let boot = |request: &UpRequest, commands: bool| {
        sandbox_lifecycle::stop(&context, &lab.request().target(), false).unwrap();
        let up = lab.up();
        let (_, assembly) = provision(&context, &lab.request(), &up).unwrap();
        let (project, away) = (lab.dir.join("project"), lab.dir.join("away"));
        if !commands {
            // Without its workspace the guest runs none.
            fs::rename(&project, &away).unwrap();
        }
        let asked = startup_hooks(&context, request, &up, &assembly, None).map(drop);
        if !commands {
            fs::rename(&away, &project).unwrap();
        }
        asked
    };
    drop(lab.up());
    assert!(boot(&request, false).is_err(), "the first time there is something to do");
    boot(&request, true).unwrap();
    boot(&request, false).unwrap();
    request.project.root = passing;
    assert!(boot(&request, false).is_err(), "another path, and one that is gone with each boot");
    boot(&request, true).unwrap();
    assert!(boot(&request, false).is_err());
    request.project.root = lasting;
    boot(&request, true).unwrap();
    lab.runtime.stop(&lab.name(), std::time::Duration::from_secs(5)).unwrap();
    lab.runtime.remove(&lab.name()).unwrap();
    assert!(boot(&request, false).is_err(), "a new root disk");
}

fn worktrees() {
    let lab = Lab::new();
    let up = lab.up();
    let (context, mut request) = (lab.context(), lab.request());
    let script = lab.dir.join("script");
    fs::write(&script, "true").unwrap();
    let mapping = HomeMapping { source: script, startup: true, root: false };
    request.provision.home.insert("bin/prepare".into(), mapping);
    let repository = lab.dir.join("repository");
    request.project.repository = Some(Repository { path: repository.clone(), relative: None });
    let (_, assembly) = provision(&context, &request, &up).unwrap();
    let ask = || startup_hooks(&context, &request, &up, &assembly, None);
    let known = || {
        let record = read_record::<ProvisionRecord>(&lab.files().provision()).unwrap().unwrap();
        record.worktrees.into_keys().collect::<Vec<_>>()
    };
    // Without its workspace the guest runs no command.
    let (project, away) = (lab.dir.join("project"), lab.dir.join("away"));
    let without_commands = |ask: &dyn Fn()| {
        fs::rename(&project, &away).unwrap();
        ask();
        fs::rename(&away, &project).unwrap();
    };
    without_commands(&|| assert!(ask().is_err()));
    assert_eq!(ask().unwrap().len(), 1, "the boot has not had them");
    assert_eq!(known(), [""; 0]);

    fs::create_dir_all(repository.join("worktrees/one")).unwrap();
    without_commands(&|| assert!(ask().is_err(), "the guest is told of it"));
    assert!(ask().unwrap().is_empty());
    assert_eq!(known(), ["one"]);
    without_commands(&|| assert!(ask().unwrap().is_empty(), "nothing has changed"));
    fs::remove_dir(repository.join("worktrees/one")).unwrap();
    without_commands(&|| assert!(ask().unwrap().is_empty(), "nothing is left to be told"));
}
