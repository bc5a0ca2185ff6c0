use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sandbox_lifecycle::prune::{Kinds, Rules, carry_out, plan, snapshot};
use sandbox_lifecycle::volumes::{Replacement, VolumeError, edit, list, migrate, remove, reset};
use sandbox_lifecycle::{Declined, LifecycleError, ListFilter, RunningChoice, kill, stop, up};
use sandbox_runtime::Runtime;
use sandbox_runtime::fake::Faults;

use crate::Case;
use crate::lab::Lab;

pub const CASES: &[Case] = &[
    ("volumes_are_listed_with_whose_they_are", listed),
    ("a_volume_that_is_used_or_current_is_not_removed", refused),
    ("a_broken_volume_is_a_row_of_its_own", broken),
    ("reset_makes_a_new_home_for_the_next_run", resets),
    ("two_new_homes_in_one_second_do_not_collide", collide),
    ("migrate_takes_every_file_over_as_it_is", migrates),
    ("a_sandbox_that_nobody_uses_is_stopped_for_a_migration", stopped_for_it),
    ("an_edited_home_counts_once_it_is_committed", edited),
    ("the_old_home_goes_only_when_asked_and_unused", removes_old),
    ("a_migration_that_fails_changes_nothing", fails),
    ("a_migration_killed_at_any_moment_changes_nothing_or_everything", killed),
];

/// The answer of debugfs to some commands, which may also write.
fn debugfs(file: &Path, commands: &str) -> String {
    let script = file.with_extension("commands");
    fs::write(&script, commands).unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg("PATH=$PATH:/usr/sbin:/sbin exec debugfs -w -f \"$1\" \"$2\"").arg("sh");
    let output = command.arg(&script).arg(file).output().unwrap();
    fs::remove_file(script).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_whole(file: &Path) -> bool {
    let mut command = Command::new("sh");
    command.arg("-c").arg("PATH=$PATH:/usr/sbin:/sbin exec e2fsck -f -n \"$1\"").arg("sh");
    command.arg(file).output().unwrap().status.success()
}

fn listed() {
    let lab = Lab::new();
    assert_eq!(list(&lab.context()).unwrap(), []);
    drop(lab.up());
    let volumes = list(&lab.context()).unwrap();
    let [volume] = volumes.as_slice() else { panic!("{volumes:?}") };
    assert_eq!(Some(&volume.name), lab.state().home_volume.as_ref());
    assert_eq!((volume.kind, volume.capacity.unwrap().human().as_str()), ("disk", "64G"));
    assert!(volume.used.bytes() > 0 && volume.used.as_mib() < 64, "{}", volume.used.human());
    assert!((sandbox_state::Stamp::now() - volume.created).abs() < 60);
    assert_eq!((volume.current_of.clone(), volume.mounted_by.clone()), (Some(lab.name()), vec![lab.name()]));
    assert_eq!(volume.problem, None);
}

fn refused() {
    let lab = Lab::new();
    let up = lab.up();
    let name = lab.state().home_volume.unwrap();
    let refusal = |dry_run| remove(&lab.context(), &name, dry_run).unwrap_err();
    assert!(matches!(refusal(false), VolumeError::InUse { .. }));
    drop(up);
    stop(&lab.context(), &lab.target(), false).unwrap();
    assert!(matches!(refusal(true), VolumeError::InUse { .. }), "a stopped sandbox mounts it again");
    // Another one becomes what it mounts, and the first stays the recorded one.
    let mut spec = lab.runtime.inspect(&lab.name()).unwrap().unwrap().spec;
    spec.home.path = lab.dir.join("elsewhere");
    lab.runtime.update(&spec).unwrap();
    assert!(matches!(refusal(false), VolumeError::Current { .. }));
    let path = lab.home();
    assert!(path.is_file());
    let state = fs::read(lab.files().state()).unwrap();
    fs::write(lab.files().state(), "{").unwrap();
    assert!(matches!(refusal(false), VolumeError::Unknown { .. }));
    fs::write(lab.files().state(), state).unwrap();
    sandbox_lifecycle::remove(&lab.context(), &lab.name(), false).unwrap();
    assert!(remove(&lab.context(), &name, true).unwrap().was_current && path.is_file());
    assert!(remove(&lab.context(), &name, false).unwrap().was_current && !path.exists());
    assert_eq!(lab.state().home_volume, None);
    assert!(matches!(refusal(false), VolumeError::NoSuchVolume(_)));
    drop(lab.up());
    assert!(!lab.said.all().contains("warning"), "{}", lab.said.all());
}

fn broken() {
    let lab = Lab::new();
    drop(lab.up());
    let place = |name: &str| lab.layout().volumes().join(name);
    fs::create_dir(place("folder.ext4")).unwrap();
    fs::write(place("short.ext4"), "x").unwrap();
    fs::write(place("other.ext4"), vec![0; 4096]).unwrap();
    fs::write(place("no volume"), "").unwrap();
    let volumes = list(&lab.context()).unwrap();
    let problems: BTreeSet<_> =
        volumes.iter().map(|volume| (volume.name.as_str(), volume.problem.as_deref())).collect();
    assert_eq!(problems.len(), 4, "{problems:?}");
    for row in [
        ("folder", Some("it is not a file")),
        ("short", Some("it is cut off")),
        ("other", Some("it holds no ext4 file system")),
    ] {
        assert!(problems.contains(&row), "{problems:?}");
    }
    let error = |volume: &str| {
        let wish = Replacement { volume: Some(volume.parse().unwrap()), ..lab.replacement() };
        stop(&lab.context(), &lab.target(), false).unwrap();
        migrate(&lab.context(), &wish).unwrap_err().to_string()
    };
    assert!(error("other").contains("no ext4"), "{}", error("other"));
    assert!(error("missing").contains("no home volume `missing`"));
}

fn resets() {
    let lab = Lab::new();
    let error = reset(&lab.context(), &lab.replacement()).unwrap_err();
    assert!(matches!(error, VolumeError::NoHome(_)), "{error:?}");
    let first = lab.up();
    let old = lab.home();
    debugfs(&old, "mkdir history\n");
    let done = reset(&lab.context(), &lab.replacement()).unwrap();
    assert!(done.running && !done.removed_old && old.is_file());
    let mounted = || lab.runtime.inspect(&lab.name()).unwrap().unwrap().spec.home.path;
    assert_eq!(mounted(), old, "the running sandbox keeps its home");
    assert_eq!(lab.boot_id(), Some(first.boot_id.clone()));
    assert_eq!(lab.state().home_volume, Some(done.new));
    drop(first);
    let second = lab.up();
    assert!(second.started, "nobody used it, so it mounts its new home now");
    assert_eq!(mounted(), lab.home());
    assert!(debugfs(&lab.home(), "stat history\n").contains("File not found"));
    assert!(is_whole(&lab.home()));
}

fn collide() {
    let lab = Lab::new();
    lab.rested(0);
    for _ in 0..4 {
        reset(&lab.context(), &lab.replacement()).unwrap();
    }
    assert_eq!(lab.volumes().len(), 5, "{:?}", lab.volumes());
    assert!(list(&lab.context()).unwrap().iter().filter(|volume| volume.current_of.is_some()).count() == 1);
}

fn migrates() {
    let lab = Lab::new();
    lab.write_dockerfile("one\nadd kept\nadd clash");
    lab.rested(0);
    let old = lab.home();
    let source = lab.dir.join("sparse");
    let file = fs::File::create(&source).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(b"end", (1 << 30) - 3).unwrap();
    debugfs(
        &old,
        &format!(
            "write {} big\nset_inode_field big uid 4711\nset_inode_field big gid 4712\n\
             set_inode_field big mode 0104751\nea_set big user.colour blue\nln big same\n\
             set_inode_field big links_count 2\nsymlink link /nowhere\nrm kept\nsymlink folder /tmp\n",
            source.display()
        ),
    );
    assert!(is_whole(&old));
    lab.write_dockerfile(
        "two\nadd kept\nadd clash\nadd new\nadd a folder/\nadd a folder/in it\nadd folder/\nadd folder/x",
    );
    let before = fs::read(lab.files().state()).unwrap();
    let done = migrate(&lab.context(), &lab.replacement()).unwrap();
    assert!(old.is_file() && !done.removed_old && !done.running);
    assert_ne!(fs::read(lab.files().state()).unwrap(), before);
    let new = lab.home();
    assert!(is_whole(&new));
    let stat = |path: &str| debugfs(&new, &format!("stat \"{path}\"\n"));
    let big = stat("/big");
    for fact in ["Mode:  04751", "User:  4711   Group:  4712", "Links: 2", "user.colour (4) = \"blue\""] {
        assert!(big.contains(fact), "{fact} in {big}");
    }
    let inode =
        |text: &str| text.split("Inode: ").nth(1).unwrap().split_whitespace().next().unwrap().to_string();
    assert_eq!(inode(&big), inode(&stat("/same")));
    assert!(stat("/link").contains("Fast link dest: \"/nowhere\""));
    assert!(debugfs(&new, "cat .profile\n").contains("one"), "the home's files win over the image's");
    // What the image has and the home has not is added, owned by the user; nothing goes through a link.
    assert!(debugfs(&new, "cat kept\n").contains("home/dev/kept"));
    assert!(debugfs(&new, "cat \"a folder/in it\"\n").contains("home/dev/a folder/in it"));
    assert!(stat("/folder").contains("Type: symlink"));
    let dev = sandbox_image::guest_user(lab.context().identity.uid, lab.context().identity.gid);
    for path in ["/new", "/a folder", "/a folder/in it"] {
        let text = stat(path);
        assert!(text.contains("Mode:  0750"), "{text}");
        assert!(text.contains(&format!("User: {:>5}   Group: {:>5}", dev.0, dev.1)), "{text}");
    }
    assert!(fs::metadata(&new).unwrap().blocks() * 512 < 64 << 20, "holes stay holes");
    assert!(lab.up().started);
}

fn removes_old() {
    let lab = Lab::new();
    let first = lab.up();
    let old = lab.home();
    let wish = Replacement { remove_old: true, ..lab.replacement() };
    let error = migrate(&lab.context(), &wish).unwrap_err();
    assert!(matches!(error, VolumeError::Running(_)), "{error:?}");
    let done = reset(&lab.context(), &wish).unwrap();
    assert!(!done.removed_old && done.old_kept.is_some() && old.is_file(), "{done:?}");
    drop(first);
    stop(&lab.context(), &lab.target(), false).unwrap();
    let old = lab.home();
    let done = migrate(&lab.context(), &wish).unwrap();
    assert!(done.removed_old && !old.exists(), "{done:?}");
    assert!(lab.up().started);
}

fn fails() {
    let lab = Lab::new();
    lab.rested(0);
    let state = fs::read(lab.files().state()).unwrap();
    let old = lab.home();
    // A file system that is damaged beyond what a mount would mend.
    let whole = fs::File::options().read(true).write(true).open(&old).unwrap();
    let mut table = vec![0; 1 << 16];
    whole.read_exact_at(&mut table, 4096).unwrap();
    whole.write_all_at(&vec![0xff; 1 << 16], 4096).unwrap();
    migrate(&lab.context(), &lab.replacement()).unwrap_err();
    assert_eq!(fs::read(lab.files().state()).unwrap(), state);
    assert_eq!(lab.volumes().len(), 1, "{:?}", lab.volumes());
    whole.write_all_at(&table, 4096).unwrap();
    migrate(&lab.context(), &lab.replacement()).unwrap();
    assert_eq!(lab.volumes().len(), 2);
    // And one that works, until it comes to its last step.
    fs::remove_file(lab.files().state()).unwrap();
    assert!(matches!(reset(&lab.context(), &lab.replacement()).unwrap_err(), VolumeError::NoHome(_)));
    assert_eq!(lab.volumes().len(), 2);
}

fn killed() {
    let lab = Lab::new();
    lab.rested(0);
    for millis in [1, 10, 20, 40, 60, 80, 100, 130, 160, 200] {
        let before = lab.state();
        let mut migrant = lab.migrant();
        std::thread::sleep(Duration::from_millis(millis));
        migrant.kill();
        let after = lab.state();
        assert!(lab.home().is_file() && is_whole(&lab.home()));
        if after == before {
            assert_eq!(lab.home(), lab.layout().volume(&before.home_volume.unwrap()));
        }
        for volume in list(&lab.context()).unwrap() {
            assert!(volume.problem.is_none() && is_whole(&volume.path), "{volume:?}");
        }
    }
    reset(&lab.context(), &lab.replacement()).unwrap();
    assert!(lab.volumes().iter().all(|name| !name.starts_with('.')), "{:?}", lab.volumes());
    lab.set_faults(&Faults::default());
    drop(up(&lab.context(), &lab.request()).unwrap());
    kill(&lab.context(), &lab.target(), false).unwrap();
}

fn stopped_for_it() {
    let lab = Lab::new();
    let first = lab.up();
    let refused = || migrate(&lab.context(), &lab.replacement()).unwrap_err();
    assert!(matches!(refused(), VolumeError::Running(_)));
    assert!(lab.said.all().contains("question: held by 1 client home volume: "), "{}", lab.said.all());
    lab.said.answers.lock().unwrap().0 = RunningChoice::Quit;
    let VolumeError::Lifecycle(error) = refused() else { panic!() };
    assert!(Declined::is(&error) && !Declined::is(&LifecycleError::NoSuchSandbox(lab.name())));
    assert_eq!((lab.boot_id(), lab.volumes().len()), (Some(first.boot_id.clone()), 1));
    drop(first);
    let done = migrate(&lab.context(), &lab.replacement()).unwrap();
    assert_eq!((done.running, lab.status().as_str()), (false, "stopped"));
    let second = lab.up();
    lab.said.answers.lock().unwrap().0 = RunningChoice::Proceed;
    migrate(&lab.context(), &lab.replacement()).unwrap();
    assert_eq!((lab.status().as_str(), lab.volumes().len()), ("stopped", 3));
    drop(second);
}

fn edited() {
    let lab = Lab::new();
    lab.rested(0);
    let (old, before) = (lab.home(), lab.state());
    let context = lab.context();
    let sandboxes = || sandbox_lifecycle::list(&lab.context(), &ListFilter::default()).unwrap().rows;
    // Given up, nothing of it is left.
    drop(edit(&context, &lab.replacement()).unwrap());
    assert_eq!((lab.volumes().len(), sandboxes().len(), lab.state()), (1, 1, before.clone()));

    let session = edit(&context, &lab.replacement()).unwrap();
    let task = lab.runtime.inspect(session.sandbox()).unwrap().unwrap();
    assert_eq!(task.status.as_str(), "running");
    let copy = task.spec.workspace.source.join("old-home.ext4");
    assert!(is_whole(&copy) && copy != old && task.spec.home.path != old);
    assert_eq!(session.shell(None).cwd.as_deref(), Some("/home/dev"));
    assert_eq!(lab.state(), before, "nothing counts yet");
    // Another program that prunes now takes nothing of it, nor waits.
    let rules =
        Rules { kinds: Kinds::ALL, older_than: Duration::ZERO, memory_keep: Duration::ZERO, spare: None };
    let spec = task.spec.clone();
    lab.runtime.kill(session.sandbox()).unwrap();
    let plan = plan(&snapshot(&context, None).unwrap(), &rules);
    assert!(plan.sandboxes.iter().any(|sandbox| sandbox.task && sandbox.name == spec.name));
    let tasks_alone = sandbox_lifecycle::prune::Plan {
        sandboxes: plan.sandboxes.iter().filter(|sandbox| sandbox.task).cloned().collect(),
        ..Default::default()
    };
    let report = carry_out(&context, sandbox_image::EngineSetting::Auto, &tasks_alone);
    assert_eq!((report.sandboxes.len(), report.spared.len()), (0, 1), "{report:?}");

    lab.runtime.start(session.sandbox()).unwrap();
    debugfs(&spec.home.path, "mkdir made-by-hand\n");
    let done = session.commit().unwrap();
    assert_eq!(lab.state().home_volume.as_ref(), Some(&done.new));
    assert!(old.is_file() && is_whole(&lab.home()));
    assert!(debugfs(&lab.home(), "stat made-by-hand\n").contains("Type: directory"));
    assert_eq!((lab.volumes().len(), sandboxes().len()), (2, 1));
    assert!(lab.up().started);
}
