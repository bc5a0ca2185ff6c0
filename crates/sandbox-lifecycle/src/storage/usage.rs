use std::collections::BTreeMap;
use std::path::PathBuf;

use sandbox_model::{ByteSize, Digest};

use super::category::{Category, of};
use super::walk::Walk;
use crate::Context;
use crate::prune::{Reasons, Rules, Snapshot};

/// One thing that takes space: a sandbox's disk, a volume, an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is for.
    pub category: Category,
    /// A sandbox, a volume, a digest, or the folder of ours that it is in.
    pub name: String,
    /// Bytes on disk.
    pub size: ByteSize,
    /// Pruning would take it.
    pub reclaimable: bool,
    /// Why it stays, where pruning looks at such things at all.
    pub kept: Option<String>,
}

/// All items of one category, added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryUsage {
    /// Which one.
    pub category: Category,
    /// How many items there are in it, not how many files.
    pub count: usize,
    /// Bytes on disk.
    pub size: ByteSize,
    /// What pruning would free.
    pub reclaimable: ByteSize,
}

/// Everything in our folders. The sizes add up to what `du` says of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// The largest first within each category.
    pub items: Vec<Item>,
    /// Folders of other users, as rootless engines make them, whose content cannot be counted.
    pub unreadable: Vec<PathBuf>,
}

impl Usage {
    /// Every category, also one that takes nothing.
    pub fn categories(&self) -> Vec<CategoryUsage> {
        let sum = |items: &[&Item]| ByteSize::from_bytes(items.iter().map(|item| item.size.bytes()).sum());
        let all = Category::ALL.into_iter().map(|category| {
            let items: Vec<&Item> = self.items.iter().filter(|item| item.category == category).collect();
            let goes: Vec<&Item> = items.iter().copied().filter(|item| item.reclaimable).collect();
            CategoryUsage { category, count: items.len(), size: sum(&items), reclaimable: sum(&goes) }
        });
        all.collect()
    }

    /// Bytes on disk of everything.
    pub fn total(&self) -> ByteSize {
        ByteSize::from_bytes(self.items.iter().map(|item| item.size.bytes()).sum())
    }

    /// Bytes on disk of what pruning would take.
    pub fn reclaimable(&self) -> ByteSize {
        let goes = self.items.iter().filter(|item| item.reclaimable);
        ByteSize::from_bytes(goes.map(|item| item.size.bytes()).sum())
    }
}

/// Walks over data and state. `snapshot` and `rules` say what pruning would take.
pub fn usage(context: &Context<'_>, snapshot: &Snapshot, rules: &Rules) -> Usage {
    let layout = &context.layout;
    let mut walk = Walk::default();
    let mut sizes: BTreeMap<(Category, String), u64> = BTreeMap::new();
    // What two of them share counts to the first; an engine's copy is the one that is not needed.
    let first = [layout.qemu().dir, layout.volumes(), layout.msb()];
    for folder in first.iter().chain([&layout.data, &layout.state]) {
        walk.visit(folder, &mut |path, bytes| *sizes.entry(of(layout, path)).or_default() += bytes);
    }
    let reasons = Reasons::new(snapshot, rules);
    let mut items: Vec<Item> = sizes
        .into_iter()
        .map(|((category, name), bytes)| {
            let fate = fate(&reasons, snapshot, category, &name);
            let (reclaimable, kept) = match fate {
                Fate::Goes => (true, None),
                Fate::Stays(why) => (false, Some(why)),
                Fate::NotAsked => (false, None),
            };
            Item { category, name, size: ByteSize::from_bytes(bytes), reclaimable, kept }
        })
        .collect();
    items.sort_by(|a, b| {
        a.category.cmp(&b.category).then_with(|| b.size.cmp(&a.size)).then_with(|| a.name.cmp(&b.name))
    });
    Usage { items, unreadable: walk.unreadable }
}

enum Fate {
    Goes,
    Stays(String),
    NotAsked,
}

impl From<Option<String>> for Fate {
    fn from(kept: Option<String>) -> Self {
        kept.map_or(Self::Goes, Self::Stays)
    }
}

fn fate(reasons: &Reasons<'_>, snapshot: &Snapshot, category: Category, name: &str) -> Fate {
    match category {
        Category::PrivateDisks | Category::SavedMemory | Category::Logs => {
            let sandbox = snapshot.sandboxes.iter().find(|sandbox| sandbox.name.as_str() == name);
            match sandbox {
                Some(sandbox) if category == Category::SavedMemory => reasons.memory(sandbox).into(),
                Some(sandbox) => reasons.sandbox(sandbox).into(),
                None if snapshot.broken.iter().any(|broken| broken == name) => {
                    Fate::Stays("its record cannot be read".into())
                }
                None => Fate::NotAsked,
            }
        }
        Category::HomeVolumes => {
            let leftover = |path: &PathBuf| path.file_name().is_some_and(|file| file == name);
            if reasons.plan.leftovers.iter().any(|seen| leftover(&seen.path)) {
                return Fate::Goes;
            }
            if name.starts_with(".new-") {
                return Fate::Stays("it is being made".into());
            }
            let volume = snapshot.volumes.iter().find(|volume| volume.name.as_str() == name);
            volume.map_or(Fate::NotAsked, |volume| reasons.volume(volume).into())
        }
        Category::BaseImages => match name.parse::<Digest>() {
            Ok(digest) => reasons.image(&digest).into(),
            Err(_) => Fate::NotAsked,
        },
        _ => Fate::NotAsked,
    }
}
