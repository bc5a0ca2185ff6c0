//! Why something stays that a plan does not name. Pure, and from the same sides as the plan.

use std::time::Duration;

use sandbox_model::{Digest, format_duration};

use super::plan::Sides;
use super::{Plan, Rules, SeenSandbox, SeenVolume, Snapshot, StateRecord, plan};
use crate::owner;

/// What goes under some rules, and why the rest stays.
#[derive(Debug)]
pub struct Reasons<'a> {
    pub plan: Plan,
    sides: Sides<'a>,
    older_than: Duration,
}

impl<'a> Reasons<'a> {
    pub fn new(snapshot: &'a Snapshot, rules: &Rules) -> Self {
        let sides = Sides::of(snapshot, rules);
        Self { plan: plan(snapshot, rules), sides, older_than: rules.older_than }
    }

    /// `None` for one that goes.
    pub fn sandbox(&self, sandbox: &SeenSandbox) -> Option<String> {
        if self.plan.sandboxes.contains(sandbox) {
            return None;
        }
        let snapshot = self.sides.snapshot;
        Some(if !sandbox.ours {
            "it was not made by this program".into()
        } else if !sandbox.status.is_at_rest() {
            format!("it is {}", sandbox.status)
        } else {
            let rest = u64::try_from(snapshot.taken.saturating_sub(sandbox.updated)).unwrap_or(0);
            let whole = if rest >= 86_400 { rest - rest % 86_400 } else { rest - rest % 60 };
            let ago = match whole {
                0 => "less than a minute".into(),
                whole => format_duration(Duration::from_secs(whole)),
            };
            format!("it was used {ago} ago; it goes after {}", format_duration(self.older_than))
        })
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
