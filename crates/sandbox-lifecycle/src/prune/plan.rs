//! What may go. Pure: a snapshot and rules in, a list out.

use std::collections::BTreeSet;
use std::time::Duration;

use sandbox_model::{ByteSize, CheckoutSlug};

use super::{SeenImage, SeenLeftover, SeenSandbox, SeenUnnamed, SeenVolume, Snapshot, StateRecord};
use crate::{Target, owner};

/// A build that is under way leaves images without a name for a while.
const UNNAMED_AGE: i64 = 24 * 60 * 60;

/// Which kinds of things may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds {
    /// Stale ones, those left over from tasks, and memory that was saved long ago.
    pub sandboxes: bool,
    /// Home volumes of stale sandboxes that nothing else uses, and half-made ones.
    pub volumes: bool,
    /// References that no sandbox needs, and the engine's images without a name.
    pub images: bool,
}

impl Kinds {
    /// As a run prunes; the state of a sandbox that is gone goes with its last volume.
    pub const ALL: Self = Self { sandboxes: true, volumes: true, images: true };
    /// Sandboxes alone; their homes stay.
    pub const SANDBOXES: Self = Self { sandboxes: true, volumes: false, images: false };
    /// Home volumes alone.
    pub const VOLUMES: Self = Self { sandboxes: false, volumes: true, images: false };
    /// Images alone.
    pub const IMAGES: Self = Self { sandboxes: false, volumes: false, images: true };
}

/// What decides, beside what there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What is looked at; everything else stays.
    pub kinds: Kinds,
    /// A sandbox at rest that was not used for this long is stale.
    pub older_than: Duration,
    /// The memory of one that sleeps goes when it was saved longer ago than this.
    pub memory_keep: Duration,
    /// Counts as one whose sandbox is in use: what is about to be started is not taken away before.
    pub spare: Option<Target>,
}

/// What is to go. Made by [`plan`] alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Stale ones and those left over from tasks.
    pub sandboxes: Vec<SeenSandbox>,
    /// Those that stay, without the memory they sleep with.
    pub memories: Vec<SeenSandbox>,
    /// Those of stale sandboxes, of which no sandbox that stays mounts one.
    pub volumes: Vec<SeenVolume>,
    /// Half-made volumes of commands that were killed.
    pub leftovers: Vec<SeenLeftover>,
    /// Whose state folders go, because their last volume does.
    pub states: Vec<Target>,
    /// References of the runtime.
    pub images: Vec<SeenImage>,
    /// Images of the engine.
    pub unnamed: Vec<SeenUnnamed>,
}

impl Plan {
    /// Whether nothing is to go.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Bytes on disk of all of it; an image with several references counts once.
    pub fn size(&self) -> ByteSize {
        let mut digests = BTreeSet::new();
        let sandboxes = self.sandboxes.iter().map(|sandbox| sandbox.size);
        let volumes = self.volumes.iter().map(|volume| volume.size);
        let images = self.images.iter().filter(|image| digests.insert(&image.digest));
        let memories = self.memories.iter().filter_map(|sandbox| sandbox.memory);
        let all = sandboxes.chain(memories).chain(volumes).chain(images.map(|image| image.size));
        let all = all.chain(self.unnamed.iter().map(|image| image.size));
        let all = all.chain(self.leftovers.iter().map(|leftover| leftover.size));
        ByteSize::from_bytes(all.map(ByteSize::bytes).sum())
    }
}

/// The rules of pruning. Nothing that is protected, or that something protected refers to, is in the
/// answer, and carrying the answer out leaves nothing for another one.
pub fn plan(snapshot: &Snapshot, rules: &Rules) -> Plan {
    let sides = Sides::of(snapshot, rules);
    let mut plan = Plan::default();
    if rules.kinds.sandboxes {
        plan.sandboxes = sides.stale.iter().map(|sandbox| (*sandbox).clone()).collect();
        plan.memories = sides.forgets.iter().map(|sandbox| (*sandbox).clone()).collect();
    }
    if rules.kinds.volumes {
        let goes = |volume: &&SeenVolume| sides.volume_goes(volume);
        plan.volumes = snapshot.volumes.iter().filter(goes).cloned().collect();
        plan.leftovers = snapshot.leftovers.iter().filter(|l| !sides.mounts_within(l)).cloned().collect();
    }
    if rules.kinds.volumes && rules.kinds.sandboxes {
        plan.states = sides.pruned.iter().filter(|target| sides.state_goes(target)).cloned().collect();
    }
    if rules.kinds.images {
        plan.images = snapshot.images.iter().filter(|image| sides.image_goes(image)).cloned().collect();
        let old = |image: &&SeenUnnamed| snapshot.taken.saturating_sub(image.created) >= UNNAMED_AGE;
        plan.unnamed = snapshot.unnamed.iter().filter(old).cloned().collect();
    }
    plan
}

/// Who is on which side.
#[derive(Debug)]
pub(super) struct Sides<'a> {
    pub(super) snapshot: &'a Snapshot,
    kinds: Kinds,
    pub(super) stale: Vec<&'a SeenSandbox>,
    /// Whose memory was saved too long ago, and who stay.
    forgets: Vec<&'a SeenSandbox>,
    /// Those that will still be there.
    pub(super) remaining: Vec<&'a SeenSandbox>,
    /// Whose sandbox is used or protected.
    pub(super) kept: BTreeSet<Target>,
    /// Whose sandbox is stale.
    pruned: BTreeSet<Target>,
    /// A sandbox that cannot be read, and whose name does not tell what it might use.
    unknown_use: bool,
}

impl<'a> Sides<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, rules: &Rules) -> Self {
        let spared = |sandbox: &SeenSandbox| sandbox.owner.is_some() && sandbox.owner == rules.spare;
        // A time of the future is no age.
        let rest = |sandbox: &SeenSandbox| {
            let seconds = u64::try_from(snapshot.taken.saturating_sub(sandbox.updated)).unwrap_or(0);
            Duration::from_secs(seconds)
        };
        let is_stale = |sandbox: &SeenSandbox| {
            let old = rest(sandbox) >= rules.older_than;
            let unused = if sandbox.task { true } else { old && !spared(sandbox) };
            sandbox.ours && sandbox.status.is_at_rest() && unused
        };
        let (stale, fresh): (Vec<_>, Vec<_>) = snapshot.sandboxes.iter().partition(|s| is_stale(s));
        let forgets = |sandbox: &&SeenSandbox| {
            let asleep = sandbox.ours && sandbox.status.is_at_rest() && sandbox.memory.is_some();
            asleep && rest(sandbox) > rules.memory_keep && !spared(sandbox)
        };
        let forgets = fresh.iter().copied().filter(forgets).collect();
        let broken: Vec<Option<Target>> = snapshot
            .broken
            .iter()
            .map(|name| name.parse().ok().and_then(|name| Target::from_name(&name)))
            .collect();
        let mut kept: BTreeSet<Target> = targets(&fresh);
        kept.extend(broken.iter().flatten().cloned());
        kept.extend(rules.spare.clone());
        let pruned = targets(&stale).difference(&kept).cloned().collect();
        let gone = rules.kinds.sandboxes;
        let remaining = if gone { fresh } else { snapshot.sandboxes.iter().collect() };
        let unknown_use = broken.contains(&None);
        Self { snapshot, kinds: rules.kinds, stale, forgets, remaining, kept, pruned, unknown_use }
    }

    /// A home goes with its own pruned sandbox only: it holds what nobody can make again.
    fn volume_goes(&self, volume: &SeenVolume) -> bool {
        let recorded = self.snapshot.states.iter().any(|(target, record)| {
            let goes = self.pruned.contains(target) && self.kinds.sandboxes;
            !goes && *record == StateRecord::Current(Some(volume.name.clone()))
        });
        let used = self.remaining.iter().any(|sandbox| sandbox.disks.contains(&volume.path));
        !recorded && !used && self.pruned.iter().any(|target| self.belongs(volume, target))
    }

    /// A task's sandbox may outlive the command that began it.
    fn mounts_within(&self, leftover: &SeenLeftover) -> bool {
        self.remaining.iter().flat_map(|sandbox| &sandbox.disks).any(|disk| disk.starts_with(&leftover.path))
    }

    /// By its name, or because the target's own sandbox mounts it. What may be anyone's is nobody's.
    fn belongs(&self, volume: &SeenVolume, target: &Target) -> bool {
        let mounts = |sandbox: &&&SeenSandbox| {
            !sandbox.task && sandbox.owner.as_ref() == Some(target) && sandbox.disks.contains(&volume.path)
        };
        let own = match &volume.owner {
            Some(owner) => owner == target,
            None => self.stale.iter().any(|sandbox| mounts(&sandbox)),
        };
        own && self.snapshot.states.get(target) != Some(&StateRecord::Unreadable)
    }

    fn state_goes(&self, target: &Target) -> bool {
        let stays = |volume: &SeenVolume| volume.owner.as_ref() == Some(target) && !self.volume_goes(volume);
        let readable = self.snapshot.states.get(target) != Some(&StateRecord::Unreadable);
        readable && !self.snapshot.volumes.iter().any(stays)
    }

    fn image_goes(&self, image: &SeenImage) -> bool {
        let Some((checkout, agent)) = owner::of_image(&image.reference) else { return false };
        let used =
            |sandbox: &&SeenSandbox| sandbox.image == image.reference || sandbox.digest == image.digest;
        let newest = agent.is_some_and(|agent| {
            let target = Target { checkout: checkout.clone(), agent };
            self.has_sandbox(&checkout) && !self.pruned.contains(&target)
        });
        let may_be_used = self.unknown_use || self.broken_of(&checkout);
        !newest && !may_be_used && !self.remaining.iter().any(used)
    }

    fn has_sandbox(&self, checkout: &CheckoutSlug) -> bool {
        self.kept.iter().any(|target| target.checkout == *checkout)
    }

    fn broken_of(&self, checkout: &CheckoutSlug) -> bool {
        let target = |name: &String| Target::from_name(&name.parse().ok()?);
        self.snapshot.broken.iter().filter_map(target).any(|target| target.checkout == *checkout)
    }
}

/// A task's sandbox stands for nobody's own.
fn targets(sandboxes: &[&SeenSandbox]) -> BTreeSet<Target> {
    let own = sandboxes.iter().filter(|sandbox| !sandbox.task);
    own.filter_map(|sandbox| sandbox.owner.clone()).collect()
}
