use std::fs;
use std::time::Duration;

use sandbox_image::EngineSetting;
use sandbox_lifecycle::prune::{
    AutoPrune, Kinds, Plan, Rules, Snapshot, auto_prune, carry_out, plan, snapshot,
};
use sandbox_runtime::Runtime;
use sandbox_state::{Lock, LockMode};

use crate::Case;
use crate::lab::Lab;

pub const CASES: &[Case] = &[
    ("a_stale_sandbox_goes_with_home_state_and_images", stale),
    ("a_plan_alone_removes_nothing", plan_alone),
    ("a_sandbox_used_since_the_snapshot_keeps_everything", used_since),
    ("a_sandbox_that_cannot_be_removed_keeps_nothing_else", removal_fails),
    ("pruning_waits_for_users_of_images_and_names_them", waits),
    ("pruning_by_itself_is_silent_spares_its_own_and_waits_for_nobody", auto),
    ("images_built_since_the_snapshot_stay", built_since),
];

const ENGINE: EngineSetting = EngineSetting::Auto;

fn look(lab: &Lab) -> Snapshot {
    snapshot(&lab.context(), Some(ENGINE)).unwrap()
}

fn decide(lab: &Lab, kinds: Kinds, days: u64) -> Plan {
    plan(&look(lab), &Rules { kinds, older_than: Duration::from_hours(days * 24), spare: None })
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
