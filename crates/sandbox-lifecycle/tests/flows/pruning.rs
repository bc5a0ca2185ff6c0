use std::fs;
use std::time::Duration;

use sandbox_image::EngineSetting;
use sandbox_lifecycle::RemovedImage;
use sandbox_lifecycle::prune::{
    AutoPrune, Kinds, Plan, Rules, Snapshot, auto_prune, carry_out, plan, snapshot,
};
use sandbox_model::ImageRef;
use sandbox_runtime::Runtime;
use sandbox_state::{Lock, LockMode};

use crate::Case;
use crate::lab::Lab;

pub const CASES: &[Case] = &[
    ("a_stale_sandbox_goes_with_home_state_and_images", stale),
    ("a_plan_alone_removes_nothing", plan_alone),
    ("a_sandbox_used_since_the_snapshot_keeps_everything", used_since),
    ("memory_that_was_saved_since_the_snapshot_stays", asleep_since),
    ("a_sandbox_that_cannot_be_removed_keeps_nothing_else", removal_fails),
    ("pruning_waits_for_users_of_images_and_names_them", waits),
    ("pruning_by_itself_is_silent_spares_its_own_and_waits_for_nobody", auto),
    ("images_built_since_the_snapshot_stay", built_since),
    ("what_a_killed_command_left_of_a_volume_goes", leftovers),
    ("usage_is_what_the_system_says_and_has_reasons", usage_adds_up),
    ("an_image_in_use_is_not_removed", image_in_use),
];

const ENGINE: EngineSetting = EngineSetting::Auto;

fn look(lab: &Lab) -> Snapshot {
    snapshot(&lab.context(), Some(ENGINE)).unwrap()
}

fn rules(kinds: Kinds, days: u64) -> Rules {
    Rules {
        kinds,
        older_than: Duration::from_hours(days * 24),
        memory_keep: Duration::from_hours(5 * 24),
        spare: None,
    }
}

fn decide(lab: &Lab, kinds: Kinds, days: u64) -> Plan {
    plan(&look(lab), &rules(kinds, days))
}

fn stale() {
    let lab = Lab::new();
    lab.rested(8);
    lab.add_unnamed();
    assert!(decide(&lab, Kinds::ALL, 9).sandboxes.is_empty());
    let plan = decide(&lab, Kinds::ALL, 7);
    let report = carry_out(&lab.context(), ENGINE, &plan);
    assert_eq!((&report.failures, &report.spared), (&vec![], &vec![]));
    assert_eq!(report.sandboxes, [lab.name().as_str()]);
    assert_eq!((report.volumes.len(), report.images.len(), report.unnamed.len()), (1, 1, 1));
    assert_eq!(report.freed, plan.size());
    assert_eq!((lab.status().as_str(), lab.loaded_images(), lab.has_unnamed()), ("none", 0, false));
    assert!(lab.volumes().is_empty() && !lab.files().dir.exists());
    assert!(!lab.files().dir.parent().unwrap().exists(), "the checkout's folder was empty too");
    assert!(decide(&lab, Kinds::ALL, 0).is_empty());
    assert!(lab.up().started, "the next run makes everything anew");
}

fn plan_alone() {
    let lab = Lab::new();
    lab.rested(800);
    let before = look(&lab);
    assert!(!decide(&lab, Kinds::ALL, 7).is_empty());
    assert_eq!(Snapshot { taken: before.taken, ..look(&lab) }, before);
}

fn used_since() {
    let lab = Lab::new();
    lab.rested(8);
    let plan = decide(&lab, Kinds::ALL, 7);
    let up = lab.up();
    let report = carry_out(&lab.context(), ENGINE, &plan);
    assert_eq!((report.sandboxes.len(), report.volumes.len(), report.images.len()), (0, 0, 0), "{report:?}");
    assert!(report.spared[0].why.contains("running"), "{report:?}");
    assert!(report.failures.is_empty() && lab.home().is_file());
    drop(up);
    // At rest again is not as it was.
    sandbox_lifecycle::stop(&lab.context(), &lab.target(), false).unwrap();
    let report = carry_out(&lab.context(), ENGINE, &plan);
    assert!(report.sandboxes.is_empty() && report.volumes.is_empty() && lab.home().is_file(), "{report:?}");
}

fn asleep_since() {
    let lab = Lab::new();
    let memory = || lab.runtime.inspect(&lab.name()).unwrap().unwrap().saved_memory;
    lab.asleep(6);
    let plan = decide(&lab, Kinds::ALL, 7);
    assert_eq!((plan.memories.len(), plan.sandboxes.len()), (1, 0), "{plan:?}");
    lab.asleep(0);
    let report = carry_out(&lab.context(), ENGINE, &plan);
    assert!(report.memories.is_empty() && report.failures.is_empty() && memory().is_some(), "{report:?}");
    assert!(report.spared[0].why.contains("was used since, and is stopped"), "{report:?}");
    // One that did not wake meanwhile.
    lab.age(6);
    let report = carry_out(&lab.context(), ENGINE, &decide(&lab, Kinds::ALL, 7));
    assert_eq!((report.memories.len(), report.spared.len(), memory()), (1, 0, None), "{report:?}");
}

fn removal_fails() {
    let lab = Lab::new();
    lab.rested(8);
    // The fake removes nothing without this lock, which a folder cannot be.
    let lock = lab.dir.join("fake/locks").join(format!("{}.control", lab.name()));
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let report = carry_out(&lab.context(), ENGINE, &decide(&lab, Kinds::ALL, 7));
    assert_eq!(report.failures.len(), 1, "{report:?}");
    assert!(report.failures[0].to_string().starts_with(&format!("sandbox {}", lab.name())));
    assert_eq!((report.sandboxes.len(), report.volumes.len(), report.images.len()), (0, 1, 1), "{report:?}");
    assert_eq!(lab.status(), "stopped");
    fs::remove_dir(&lock).unwrap();
    let report = carry_out(&lab.context(), ENGINE, &decide(&lab, Kinds::ALL, 7));
    assert_eq!((report.failures.len(), report.sandboxes.len()), (0, 1));
}

fn waits() {
    let lab = Lab::new();
    lab.rested(8);
    let plan = decide(&lab, Kinds::ALL, 7);
    let lock = lab.layout().image_store_lock();
    let user = Lock::take(&lock, LockMode::Shared, "run", |_| {}).unwrap();
    std::thread::scope(|scope| {
        let doer = scope.spawn(|| carry_out(&lab.context(), ENGINE, &plan));
        let me = format!("step: waiting for process {} (", std::process::id());
        let begin = std::time::Instant::now();
        while !lab.said.all().contains(&me) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{}", lab.said.all());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(lab.loaded_images(), 1);
        drop(user);
        assert_eq!(doer.join().unwrap().images.len(), 1);
    });
}

fn auto() {
    let lab = Lab::new();
    lab.rested(31);
    lab.add_unnamed();
    let mut how = AutoPrune {
        older_than: sandbox_lifecycle::prune::AUTO_PRUNE_AGE,
        memory_keep: Duration::from_hours(5 * 24),
        engine: ENGINE,
        dry_run: false,
        about_to_run: lab.target(),
    };
    // Somebody is at it: that is no reason to wait, nor to complain.
    let other = Lock::take(&lab.layout().image_store_lock(), LockMode::Shared, "run", |_| {}).unwrap();
    auto_prune(&lab.context(), &how);
    assert_eq!(lab.status(), "stopped", "what is about to run stays, however old it is");
    assert!(lab.has_unnamed());
    drop(other);
    let loud = |line: &str| line.starts_with("info") || line.starts_with("warning");
    assert!(!lab.said.all().lines().any(loud) && lab.said.all().contains("verbose: pruning: "));
    // Once per process.
    let said = lab.said.all();
    how.about_to_run.checkout = "another-4chyvv5c1qh507".parse().unwrap();
    auto_prune(&lab.context(), &how);
    assert_eq!((lab.said.all(), lab.status().as_str()), (said, "stopped"));
}

fn built_since() {
    let lab = Lab::new();
    lab.rested(8);
    sandbox_lifecycle::stop(&lab.context(), &lab.target(), true).unwrap();
    let plan = decide(&lab, Kinds::IMAGES, 7);
    assert_eq!(plan.images.len(), 1);
    lab.write_dockerfile("two");
    sandbox_lifecycle::build(&lab.context(), &lab.request().build_request()).unwrap();
    let report = carry_out(&lab.context(), ENGINE, &plan);
    assert_eq!((report.images.len(), report.spared.len()), (0, 1), "{report:?}");
    assert_eq!(lab.runtime.list_images().unwrap().len(), 1);
}

fn leftovers() {
    let lab = Lab::new();
    lab.rested(0);
    let left = lab.layout().volumes().join(format!(".new-{}.abc", lab.name()));
    fs::create_dir(&left).unwrap();
    fs::write(left.join("home.ext4"), vec![1; 100_000]).unwrap();
    // Somebody else's folder, and one that is being filled just now.
    let foreign = lab.layout().volumes().join(".new-mine");
    fs::create_dir(&foreign).unwrap();
    let lock = lab.layout().boot_lock(&lab.target().checkout, lab.target().agent);
    let maker = Lock::take(&lock, LockMode::Exclusive, "volume reset", |_| {}).unwrap();
    assert!(decide(&lab, Kinds::ALL, 7).is_empty());
    drop(maker);
    let plan = decide(&lab, Kinds::VOLUMES, 7);
    assert_eq!((plan.leftovers.len(), plan.volumes.len()), (1, 0));
    assert!(plan.size().bytes() >= 100_000);
    let maker = Lock::take(&lock, LockMode::Exclusive, "volume reset", |_| {}).unwrap();
    let report = carry_out(&lab.context(), ENGINE, &plan);
    assert_eq!((report.leftovers.len(), report.spared.len()), (0, 1), "{report:?}");
    drop(maker);
    let report = carry_out(&lab.context(), ENGINE, &plan);
    assert_eq!((report.leftovers.len(), report.failures.len()), (1, 0), "{report:?}");
    assert!(!left.exists() && foreign.exists() && lab.home().is_file());
    assert!(decide(&lab, Kinds::ALL, 7).is_empty());
}

fn usage_adds_up() {
    let lab = Lab::new();
    lab.rested(8);
    let layout = lab.layout();
    let image = layout.qemu().images().join("ab");
    fs::create_dir_all(&image).unwrap();
    fs::write(image.join("rootfs.erofs"), vec![7; 300_000]).unwrap();
    // One file under two names, in two categories, is there once.
    let kept = layout.engine().join("copy");
    fs::create_dir_all(layout.engine()).unwrap();
    fs::hard_link(image.join("rootfs.erofs"), &kept).unwrap();
    // Some file systems decide only when they write what a file takes.
    std::process::Command::new("sync").arg(&kept).status().unwrap();
    let seen = look(&lab);
    let rules = |days: u64| rules(Kinds::ALL, days);
    let usage = sandbox_lifecycle::storage::usage(&lab.context(), &seen, &rules(7));
    let du = std::process::Command::new("du")
        .args(["-sc", "--block-size=1"])
        .args([&layout.data, &layout.state])
        .output()
        .unwrap();
    let du = String::from_utf8(du.stdout).unwrap();
    let total = du.lines().last().unwrap().split_whitespace().next().unwrap();
    assert_eq!(usage.total().bytes().to_string(), total, "{usage:#?}");
    let sums: u64 = usage.categories().iter().map(|category| category.size.bytes()).sum();
    assert_eq!(sums, usage.total().bytes());
    let home = |usage: &sandbox_lifecycle::storage::Usage| {
        let name = lab.state().home_volume.unwrap();
        usage.items.iter().find(|item| item.name == name.as_str()).unwrap().clone()
    };
    assert!(home(&usage).reclaimable && usage.reclaimable() > home(&usage).size);
    let usage = sandbox_lifecycle::storage::usage(&lab.context(), &seen, &rules(9));
    let kept = home(&usage).kept.unwrap();
    assert_eq!(kept, format!("sandbox {} mounts it", lab.name()));
    assert!(!home(&usage).reclaimable);
}

fn image_in_use() {
    let lab = Lab::new();
    lab.rested(0);
    let reference = lab.request().build_request().reference();
    let remove = |dry_run| sandbox_lifecycle::remove_image(&lab.context(), &reference, dry_run);
    let frees = |removed| matches!(removed, RemovedImage::Freed(size) if size.bytes() > 0);
    let error = remove(false).unwrap_err().to_string();
    assert_eq!(error, format!("image `{reference}` is used by sandbox `{}`", lab.name()));
    sandbox_lifecycle::remove(&lab.context(), &lab.name(), false).unwrap();
    assert!(frees(remove(true).unwrap()));
    assert_eq!(lab.loaded_images(), 1);
    // Under another name as well, its content stays.
    let digest = lab.state().image_digest.unwrap();
    let other: ImageRef = "agents-sandbox/other:1".parse().unwrap();
    lab.runtime.load_image(&other, &digest, &mut std::io::empty(), &mut |_, _| {}).unwrap();
    assert!(matches!(remove(true).unwrap(), RemovedImage::Named(names) if names == [other.clone()]));
    lab.runtime.remove_image(&other).unwrap();
    assert!(frees(remove(false).unwrap()));
    assert_eq!(lab.loaded_images(), 0);
    assert_eq!(remove(false).unwrap_err().to_string(), format!("there is no image `{reference}`"));
    assert!(lab.up().started);
}
