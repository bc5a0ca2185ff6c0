use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use sandbox_model::{AgentName, ByteSize, CheckoutSlug, Digest, ImageRef, SandboxName, Status, VolumeName};

use super::*;
use crate::{Target, owner};

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;

fn checkout(number: u8) -> CheckoutSlug {
    format!("p{number}-4chyvv5c1qh507").parse().unwrap()
}

fn target(number: u8, agent: AgentName) -> Target {
    Target { checkout: checkout(number), agent }
}

fn digest(number: u8) -> Digest {
    format!("{number:064x}").parse().unwrap()
}

fn volume_name(target: &Target, number: u8) -> VolumeName {
    format!("{}-20260101T0000{number:02}", target.name()).parse().unwrap()
}

fn path(name: &VolumeName) -> PathBuf {
    format!("/volumes/{name}.ext4").into()
}

fn sandbox(target: &Target, status: Status, days: i64, volume: u8, image: u8) -> SeenSandbox {
    SeenSandbox {
        name: target.name(),
        ours: true,
        task: false,
        owner: Some(target.clone()),
        status,
        updated: NOW - days * DAY,
        image: ImageRef::runner(&target.checkout, target.agent),
        digest: digest(image),
        disks: vec![path(&volume_name(target, volume))],
        size: ByteSize::mib(1),
        memory: None,
    }
}

fn volume(target: &Target, number: u8) -> SeenVolume {
    let name = volume_name(target, number);
    SeenVolume { path: path(&name), owner: Some(target.clone()), size: ByteSize::mib(2), name }
}

fn image(reference: ImageRef, number: u8) -> SeenImage {
    SeenImage { reference, digest: digest(number), size: ByteSize::mib(4) }
}

fn rules(kinds: Kinds, days: u64) -> Rules {
    Rules {
        kinds,
        older_than: Duration::from_hours(days * 24),
        memory_keep: Duration::from_hours(5 * 24),
        spare: None,
    }
}

fn names(plan: &Plan) -> Vec<String> {
    let sandboxes = plan.sandboxes.iter().map(|sandbox| format!("s {}", sandbox.name));
    let volumes = plan.volumes.iter().map(|volume| format!("v {}", volume.name));
    let images = plan.images.iter().map(|image| format!("i {}", image.reference));
    let states = plan.states.iter().map(|target| format!("state {}", target.name()));
    sandboxes.chain(volumes).chain(images).chain(states).collect()
}

/// One project with one sandbox, its current volume and one from before, and its image.
fn one(status: Status, days: i64) -> Snapshot {
    let target = target(1, AgentName::OPENCODE);
    let current = volume_name(&target, 1);
    Snapshot {
        taken: NOW,
        sandboxes: vec![sandbox(&target, status, days, 1, 1)],
        volumes: vec![volume(&target, 0), volume(&target, 1)],
        images: vec![image(ImageRef::runner(&target.checkout, target.agent), 1)],
        states: BTreeMap::from([(target, StateRecord::Current(Some(current)))]),
        ..Snapshot::default()
    }
}

#[test]
fn a_stale_sandbox_goes_with_all_that_is_its_own() {
    for status in [Status::Created, Status::Stopped, Status::Crashed] {
        let plan = plan(&one(status, 8), &rules(Kinds::ALL, 7));
        assert_eq!(
            names(&plan),
            [
                "s p1-4chyvv5c1qh507-opencode",
                "v p1-4chyvv5c1qh507-opencode-20260101T000000",
                "v p1-4chyvv5c1qh507-opencode-20260101T000001",
                "i agents-sandbox/runner-p1-4chyvv5c1qh507:opencode-latest",
                "state p1-4chyvv5c1qh507-opencode",
            ]
        );
        assert_eq!(plan.size(), ByteSize::mib(1 + 2 + 2 + 4));
    }
}

#[test]
fn a_sandbox_in_use_or_in_an_unknown_status_keeps_everything() {
    for status in [
        Status::Running,
        Status::Starting,
        Status::Draining,
        Status::Paused,
        Status::Unknown("hibernating".into()),
    ] {
        assert!(plan(&one(status, 800), &rules(Kinds::ALL, 7)).is_empty());
    }
    assert!(plan(&one(Status::Stopped, 6), &rules(Kinds::ALL, 7)).is_empty());
}

#[test]
fn what_is_not_ours_is_not_touched() {
    let mut snapshot = one(Status::Stopped, 800);
    snapshot.sandboxes[0].ours = false;
    snapshot.images.push(image("debian:trixie".parse().unwrap(), 9));
    assert!(plan(&snapshot, &rules(Kinds::ALL, 7)).is_empty());
}

#[test]
fn the_home_of_a_checkout_without_a_sandbox_stays_and_its_images_go() {
    let mut snapshot = one(Status::Stopped, 800);
    snapshot.sandboxes.clear();
    let plan = plan(&snapshot, &rules(Kinds::ALL, 7));
    assert_eq!(names(&plan), ["i agents-sandbox/runner-p1-4chyvv5c1qh507:opencode-latest"]);
}

#[test]
fn volumes_alone_leave_a_sandbox_that_still_exists_its_home() {
    let plan = plan(&one(Status::Stopped, 800), &rules(Kinds::VOLUMES, 7));
    assert_eq!(names(&plan), ["v p1-4chyvv5c1qh507-opencode-20260101T000000"]);
}

#[test]
fn images_alone_leave_a_sandbox_that_still_exists_its_image() {
    assert!(plan(&one(Status::Stopped, 800), &rules(Kinds::IMAGES, 7)).is_empty());
}

#[test]
fn a_kept_project_keeps_its_newest_tags_and_what_its_sandboxes_refer_to() {
    let mut snapshot = one(Status::Stopped, 1);
    let slug = checkout(1);
    let old = |tag: &str| format!("agents-sandbox/runner-{slug}:{tag}").parse::<ImageRef>().unwrap();
    snapshot.images.push(image(old("0123abcd"), 5));
    snapshot.images.push(image(old("still-used"), 6));
    snapshot.images.push(image(ImageRef::runner(&slug, AgentName::literal("pi")), 7));
    snapshot.sandboxes.push(SeenSandbox {
        image: old("still-used"),
        digest: digest(6),
        ..sandbox(&target(1, AgentName::literal("claude-code")), Status::Stopped, 1, 3, 6)
    });
    let plan = plan(&snapshot, &rules(Kinds::ALL, 7));
    assert_eq!(names(&plan), ["i agents-sandbox/runner-p1-4chyvv5c1qh507:0123abcd"]);
}

#[test]
fn a_task_that_is_over_goes_at_any_age_and_stands_for_nobody() {
    let mut snapshot = one(Status::Stopped, 1);
    let task = |status, name: &str| SeenSandbox {
        task: true,
        name: name.parse().unwrap(),
        ..sandbox(&target(1, AgentName::OPENCODE), status, 0, 1, 1)
    };
    snapshot.sandboxes.push(task(Status::Stopped, "p1-task-1"));
    snapshot.sandboxes.push(task(Status::Running, "p1-task-2"));
    let found = plan(&snapshot, &rules(Kinds::ALL, 7));
    assert_eq!(names(&found), ["s p1-task-1"], "the checkout's own sandbox is fresh: its home stays");
    // And one that runs does not keep a stale sandbox, but it keeps what it mounts.
    snapshot.sandboxes[0].updated = NOW - 30 * DAY;
    let found = names(&plan(&snapshot, &rules(Kinds::ALL, 7)));
    assert!(found.contains(&"s p1-4chyvv5c1qh507-opencode".into()), "{found:?}");
    assert!(!found.contains(&"v p1-4chyvv5c1qh507-opencode-20260101T000001".into()), "{found:?}");
}

#[test]
fn a_state_file_that_cannot_be_read_protects_its_volumes() {
    let mut snapshot = one(Status::Stopped, 800);
    snapshot.states.insert(target(1, AgentName::OPENCODE), StateRecord::Unreadable);
    let plan = plan(&snapshot, &rules(Kinds::ALL, 7));
    assert!(plan.volumes.is_empty() && plan.states.is_empty() && plan.sandboxes.len() == 1, "{plan:?}");
}

#[test]
fn a_sandbox_that_cannot_be_read_protects_what_may_be_its_own() {
    let mut snapshot = one(Status::Stopped, 800);
    snapshot.sandboxes.clear();
    snapshot.broken = vec![target(1, AgentName::OPENCODE).name().to_string()];
    assert!(plan(&snapshot, &rules(Kinds::ALL, 7)).is_empty());
    snapshot.broken = vec!["something".into()];
    assert!(plan(&snapshot, &rules(Kinds::ALL, 7)).is_empty());
    snapshot.broken = vec![target(2, AgentName::OPENCODE).name().to_string()];
    assert_eq!(plan(&snapshot, &rules(Kinds::ALL, 7)).images.len(), 1);
}

#[test]
fn what_is_about_to_be_started_is_spared() {
    let mut rules = rules(Kinds::ALL, 7);
    rules.spare = Some(target(1, AgentName::OPENCODE));
    assert!(plan(&one(Status::Stopped, 800), &rules).is_empty());
}

#[test]
fn memory_that_was_saved_too_long_ago_goes_and_its_sandbox_stays() {
    let memory = |days, status| {
        let mut snapshot = one(status, days);
        snapshot.sandboxes[0].memory = Some(ByteSize::mib(9));
        snapshot
    };
    let plan_of = |snapshot: &Snapshot| plan(snapshot, &rules(Kinds::ALL, 7));
    let goes = plan_of(&memory(6, Status::Stopped));
    assert_eq!((goes.memories.len(), goes.size(), names(&goes)), (1, ByteSize::mib(9), vec![]));
    assert!(plan_of(&memory(5, Status::Stopped)).is_empty(), "it is kept for five days");
    assert!(plan_of(&memory(6, Status::Running)).is_empty());
    assert!(plan_of(&memory(-6, Status::Stopped)).is_empty(), "a time of the future is no age");
    assert!(plan(&memory(6, Status::Stopped), &rules(Kinds::VOLUMES, 7)).is_empty());
    // It goes once, with its sandbox.
    assert!(plan_of(&memory(8, Status::Stopped)).memories.is_empty());
    let mut spared = rules(Kinds::ALL, 7);
    spared.spare = Some(target(1, AgentName::OPENCODE));
    assert!(plan(&memory(6, Status::Stopped), &spared).is_empty(), "it is about to be woken");
}

#[test]
fn unnamed_images_of_the_engine_go_after_a_day() {
    let unnamed =
        |number, age| SeenUnnamed { id: digest(number), created: NOW - age, size: ByteSize::mib(1) };
    let snapshot =
        Snapshot { taken: NOW, unnamed: vec![unnamed(1, DAY - 1), unnamed(2, DAY)], ..Snapshot::default() };
    assert_eq!(plan(&snapshot, &rules(Kinds::ALL, 7)).unnamed, [unnamed(2, DAY)]);
    assert!(plan(&snapshot, &rules(Kinds::SANDBOXES, 7)).is_empty());
}

const AGENTS: [AgentName; 2] = [AgentName::OPENCODE, AgentName::literal("opencode2")];

fn any_target() -> impl Strategy<Value = Target> {
    (0..3_u8, select(AGENTS.to_vec())).prop_map(|(number, agent)| target(number, agent))
}

fn any_status() -> impl Strategy<Value = Status> {
    let words = ["created", "starting", "running", "draining", "paused", "stopped", "crashed", "odd"];
    // At rest more often than not, or little would ever go.
    prop_oneof![Just(Status::Stopped), Just(Status::Crashed), select(words.to_vec()).prop_map(Status::parse)]
}

fn any_reference(target: &Target, kind: u8) -> ImageRef {
    match kind {
        0..3 => ImageRef::runner(&target.checkout, target.agent),
        3 => format!("agents-sandbox/runner-{}:0123", target.checkout).parse().unwrap(),
        _ => "debian:trixie".parse().unwrap(),
    }
}

fn any_sandbox() -> impl Strategy<Value = SeenSandbox> {
    let place = (any_target(), any_status(), 0..40_i64, 0..4_u8, 0..6_u8);
    let kind = (0..5_u8, prop::bool::weighted(0.2), prop::bool::weighted(0.9), any_target(), 0..100_u32);
    (place, kind).prop_map(|((target, status, days, volume, digest), (kind, task, ours, mounts, number))| {
        let name: SandboxName = if task { format!("task-{number}").parse().unwrap() } else { target.name() };
        // A task may mount what belongs to another.
        let disk =
            if task { path(&volume_name(&mounts, volume)) } else { path(&volume_name(&target, volume)) };
        SeenSandbox {
            name,
            task,
            ours,
            image: any_reference(&target, kind),
            disks: vec![disk],
            memory: (number % 2 == 0).then_some(ByteSize::mib(1)),
            ..sandbox(&target, status, days, volume, digest)
        }
    })
}

prop_compose! {
    fn any_snapshot()(
        sandboxes in prop::collection::vec(any_sandbox(), 0..6),
        volumes in prop::collection::btree_set((0..3_u8, 0..2_usize, 0..4_u8), 0..10),
        images in prop::collection::vec((any_target(), 0..5_u8, 0..6_u8), 0..8),
        states in prop::collection::btree_map(any_target(), prop::option::weighted(0.9, prop::option::of((any_target(), 0..4_u8))), 0..5),
        broken in prop::collection::vec(any_target().prop_map(|target| target.name().to_string()), 0..2),
        unnamed in prop::collection::vec((0..9_u8, 0..3_i64), 0..3),
        leftovers in prop::collection::btree_map(any_target(), any::<bool>(), 0..3),
    ) -> Snapshot {
        let mut sandboxes: Vec<SeenSandbox> = sandboxes;
        sandboxes.sort_by(|a, b| a.name.cmp(&b.name));
        sandboxes.dedup_by(|a, b| a.name == b.name);
        let mut images: Vec<SeenImage> = images
            .into_iter()
            .map(|(target, kind, number)| image(any_reference(&target, kind), number))
            .collect();
        images.sort_by(|a, b| a.reference.cmp(&b.reference));
        images.dedup_by(|a, b| a.reference == b.reference);
        let record = |state: Option<Option<(Target, u8)>>| match state {
            None => StateRecord::Unreadable,
            Some(current) => StateRecord::Current(current.map(|(target, number)| volume_name(&target, number))),
        };
        Snapshot {
            taken: NOW,
            volumes: volumes
                .into_iter()
                .map(|(number, agent, volume_number)| volume(&target(number, AGENTS[agent]), volume_number))
                .collect(),
            states: states.into_iter().map(|(target, state)| (target, record(state))).collect(),
            unnamed: unnamed
                .into_iter()
                .map(|(number, days)| SeenUnnamed { id: digest(number), created: NOW - days * DAY, size: ByteSize::mib(1) })
                .collect(),
            leftovers: leftovers
                .into_iter()
                .map(|(owner, used)| leftover(owner, used, &mut sandboxes))
                .collect(),
            sandboxes, images, broken, engine_problem: None,
        }
    }
}

/// A half-made volume, which where `used` some sandbox mounts.
fn leftover(owner: Target, used: bool, sandboxes: &mut [SeenSandbox]) -> SeenLeftover {
    let path = PathBuf::from(format!("/volumes/.new-{}.x", owner.name()));
    if let (true, Some(sandbox)) = (used, sandboxes.first_mut()) {
        sandbox.disks.push(path.join("home.ext4"));
    }
    SeenLeftover { path, owner, size: ByteSize::mib(1) }
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let kinds = [Kinds::ALL, Kinds::ALL, Kinds::SANDBOXES, Kinds::VOLUMES, Kinds::IMAGES];
    (select(kinds.to_vec()), 0..40_u64, prop::option::weighted(0.3, any_target()))
        .prop_map(|(kinds, days, spare)| Rules { spare, ..rules(kinds, days) })
}

/// What is there when a plan was carried out without any trouble.
fn after(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    after.sandboxes.retain(|sandbox| !plan.sandboxes.contains(sandbox));
    for sandbox in after.sandboxes.iter_mut().filter(|sandbox| plan.memories.contains(sandbox)) {
        sandbox.memory = None;
    }
    after.volumes.retain(|volume| !plan.volumes.contains(volume));
    after.leftovers.retain(|leftover| !plan.leftovers.contains(leftover));
    after.images.retain(|image| !plan.images.contains(image));
    after.unnamed.retain(|image| !plan.unnamed.contains(image));
    after.states.retain(|target, _| !plan.states.contains(target));
    after
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_protected_or_referenced_is_ever_in_a_plan(snapshot in any_snapshot(), rules in any_rules()) {
        let plan = plan(&snapshot, &rules);
        for sandbox in &plan.sandboxes {
            prop_assert!(sandbox.ours && sandbox.status.is_at_rest());
            let age = u64::try_from(NOW - sandbox.updated).unwrap();
            prop_assert!(sandbox.task || Duration::from_secs(age) >= rules.older_than);
            prop_assert!(sandbox.task || sandbox.owner != rules.spare);
        }
        for sandbox in &plan.memories {
            prop_assert!(sandbox.ours && sandbox.status.is_at_rest() && sandbox.memory.is_some());
            let age = u64::try_from(NOW - sandbox.updated).unwrap();
            prop_assert!(Duration::from_secs(age) > rules.memory_keep && sandbox.owner != rules.spare);
            prop_assert!(!plan.sandboxes.contains(sandbox));
        }
        let left = after(&snapshot, &plan);
        for volume in &plan.volumes {
            let target = volume.owner.as_ref().unwrap();
            prop_assert!(left.sandboxes.iter().all(|sandbox| !sandbox.disks.contains(&volume.path)));
            let recorded = StateRecord::Current(Some(volume.name.clone()));
            let fresh = |sandbox: &SeenSandbox| {
                !sandbox.task
                    && sandbox.owner.as_ref() == Some(target)
                    && sandbox.ours
                    && sandbox.status.is_at_rest()
                    && Duration::from_secs(u64::try_from(NOW - sandbox.updated).unwrap()) >= rules.older_than
            };
            // Only with its own stale sandbox, which goes too where sandboxes may.
            prop_assert!(snapshot.sandboxes.iter().any(fresh));
            prop_assert!(!rules.kinds.sandboxes || plan.sandboxes.iter().any(fresh));
            for (owner, state) in &left.states {
                let goes = rules.kinds.sandboxes && plan.sandboxes.iter().any(|s| s.owner.as_ref() == Some(owner));
                prop_assert!(goes || *state != recorded, "{owner:?} records {}", volume.name);
            }
            prop_assert!(!snapshot.broken.contains(&target.name().to_string()));
            prop_assert!(snapshot.states.get(target) != Some(&StateRecord::Unreadable));
        }
        for leftover in &plan.leftovers {
            let within = |disk: &PathBuf| disk.starts_with(&leftover.path);
            prop_assert!(!left.sandboxes.iter().any(|sandbox| sandbox.disks.iter().any(within)));
        }
        for image in &plan.images {
            prop_assert!(owner::of_image(&image.reference).is_some());
            let uses = |s: &SeenSandbox| s.image == image.reference || s.digest == image.digest;
            prop_assert!(!left.sandboxes.iter().any(uses));
        }
        for target in &plan.states {
            prop_assert!(left.volumes.iter().all(|volume| volume.owner.as_ref() != Some(target)));
        }
    }

    #[test]
    fn a_plan_leaves_nothing_for_another(snapshot in any_snapshot(), rules in any_rules()) {
        let first = plan(&snapshot, &rules);
        let second = plan(&after(&snapshot, &first), &rules);
        prop_assert!(second.is_empty(), "{second:?}");
    }

    #[test]
    fn everything_goes_or_has_a_reason_to_stay(snapshot in any_snapshot(), rules in any_rules()) {
        let reasons = Reasons::new(&snapshot, &rules);
        for sandbox in &snapshot.sandboxes {
            let goes = reasons.plan.sandboxes.contains(sandbox);
            prop_assert_eq!(reasons.sandbox(sandbox).is_none(), goes);
            let forgotten = goes || reasons.plan.memories.contains(sandbox);
            prop_assert_eq!(reasons.memory(sandbox).is_none(), forgotten);
        }
        for volume in &snapshot.volumes {
            prop_assert_eq!(reasons.volume(volume).is_none(), reasons.plan.volumes.contains(volume));
        }
        let left = after(&snapshot, &reasons.plan);
        for image in &snapshot.images {
            let stays = left.images.iter().any(|other| other.digest == image.digest)
                || left.sandboxes.iter().any(|sandbox| sandbox.digest == image.digest);
            prop_assert!(!rules.kinds.images || !rules.kinds.sandboxes || reasons.image(&image.digest).is_some() == stays);
        }
    }

    #[test]
    fn one_kind_alone_never_takes_more_than_all(snapshot in any_snapshot(), mut rules in any_rules()) {
        let part = plan(&snapshot, &rules);
        rules.kinds = Kinds::ALL;
        let all = plan(&snapshot, &rules);
        prop_assert!(part.sandboxes.iter().all(|item| all.sandboxes.contains(item)));
        prop_assert!(part.volumes.iter().all(|item| all.volumes.contains(item)));
        prop_assert!(part.images.iter().all(|item| all.images.contains(item)));
    }
}
