//! Why something stays that a plan does not name. Pure, and from the same sides as the plan.

use std::time::Duration;

use sandbox_model::{Digest, format_duration};

use super::plan::Sides;
use super::{Plan, Rules, SeenSandbox, SeenVolume, Snapshot, StateRecord, plan};
use crate::owner;

/// What goes under some rules, and why the rest stays.
#[derive(Debug)]
pub struct Reasons<'a> {
    /// The same that pruning by these rules would carry out.
    pub plan: Plan,
    sides: Sides<'a>,
    older_than: Duration,
    memory_keep: Duration,
}

impl<'a> Reasons<'a> {
    /// Takes what [`plan()`] takes.
    pub fn new(snapshot: &'a Snapshot, rules: &Rules) -> Self {
        let sides = Sides::of(snapshot, rules);
        let (older_than, memory_keep) = (rules.older_than, rules.memory_keep);
        Self { plan: plan(snapshot, rules), sides, older_than, memory_keep }
    }

    /// `None` for one that goes.
    pub fn sandbox(&self, sandbox: &SeenSandbox) -> Option<String> {
        if self.plan.sandboxes.contains(sandbox) {
            return None;
        }
        Some(unfit(sandbox).unwrap_or_else(|| {
            format!(
                "it was used {} ago; it goes after {}",
                self.ago(sandbox),
                format_duration(self.older_than)
            )
        }))
    }

    /// For what a sandbox's memory takes; `None` where that goes, alone or with the sandbox.
    pub fn memory(&self, sandbox: &SeenSandbox) -> Option<String> {
        if self.plan.memories.contains(sandbox) || self.plan.sandboxes.contains(sandbox) {
            return None;
        }
        Some(unfit(sandbox).unwrap_or_else(|| {
            format!(
                "it was saved {} ago; it goes after {}",
                self.ago(sandbox),
                format_duration(self.memory_keep)
            )
        }))
    }

    fn ago(&self, sandbox: &SeenSandbox) -> String {
        let taken = self.sides.snapshot.taken;
        let rest = u64::try_from(taken.saturating_sub(sandbox.updated)).unwrap_or(0);
        match if rest >= 86_400 { rest - rest % 86_400 } else { rest - rest % 60 } {
            0 => "less than a minute".into(),
            whole => format_duration(Duration::from_secs(whole)),
        }
    }

    /// `None` for one that goes.
    pub fn volume(&self, volume: &SeenVolume) -> Option<String> {
        if self.plan.volumes.contains(volume) {
            return None;
        }
        let snapshot = self.sides.snapshot;
        let mounted = self.sides.remaining.iter().find(|sandbox| sandbox.disks.contains(&volume.path));
        if let Some(sandbox) = mounted {
            return Some(format!("sandbox {} mounts it", sandbox.name));
        }
        let Some(owner) = &volume.owner else { return Some("its name tells of no sandbox".into()) };
        Some(match snapshot.states.get(owner) {
            Some(StateRecord::Unreadable) => format!("the record of {} cannot be read", owner.name()),
            _ if self.sides.kept.contains(owner) => format!("sandbox {} stays", owner.name()),
            Some(StateRecord::Current(Some(name))) if *name == volume.name => {
                format!("it is the current home of {}, which has no sandbox", owner.name())
            }
            _ => "it holds user data, and no sandbox of its project is pruned".into(),
        })
    }

    /// For the content of images; `None` where no name and no sandbox keeps it.
    pub fn image(&self, digest: &Digest) -> Option<String> {
        if let Some(sandbox) = self.sides.remaining.iter().find(|sandbox| sandbox.digest == *digest) {
            return Some(format!("sandbox {} uses it", sandbox.name));
        }
        let mut names = self.sides.snapshot.images.iter().filter(|image| image.digest == *digest);
        let kept = names.find(|image| !self.plan.images.contains(image))?;
        Some(match owner::of_image(&kept.reference) {
            Some((_, Some(agent))) => format!("it is the newest image of a project, for {agent}"),
            Some((_, None)) => "a record that cannot be read may use it".into(),
            None => format!("{} is no runner image", kept.reference),
        })
    }
}

/// What keeps a sandbox whatever its age.
fn unfit(sandbox: &SeenSandbox) -> Option<String> {
    if !sandbox.ours {
        return Some("it was not made by this program".into());
    }
    (!sandbox.status.is_at_rest()).then(|| format!("it is {}", sandbox.status))
}
