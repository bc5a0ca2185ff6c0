//! Whatever a guest does, in whichever order: what it has on the disk it is charged for.

use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 8 * MIB;
const NAMES: [&str; 4] = ["one", "two", "three", "four"];
/// A block here and there, which a file system spends on its own.
const SLACK: u64 = MIB / 4;
const STEP: u64 = 64 << 10;

#[derive(Debug, Clone)]
enum Step {
    Open { root: usize, name: usize, flags: i32 },
    Create { root: usize, name: usize },
    Write { handle: usize, at: u64, steps: u64 },
    Allocate { handle: usize, mode: i32, at: u64, steps: u64 },
    Copy { from: usize, to: usize, at: u64 },
    Cut { handle: Option<usize>, root: usize, name: usize, steps: u64 },
    Close { handle: usize },
    Unlink { root: usize, name: usize },
    Rename { root: usize, from: usize, to: usize, flags: u32 },
    Link { root: usize, from: usize, to: usize },
    Look,
    Evict,
    Init,
}

fn step() -> impl Strategy<Value = Step> {
    let (root, name, handle, at, steps) = (0_usize..2, 0_usize..4, 0_usize..8, 0_u64..16, 1_u64..8);
    let flags = prop_oneof![Just(libc::O_RDWR), Just(libc::O_RDONLY), Just(libc::O_WRONLY | libc::O_TRUNC)];
    let mode = prop_oneof![
        Just(0),
        Just(libc::FALLOC_FL_KEEP_SIZE),
        Just(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
        Just(libc::FALLOC_FL_COLLAPSE_RANGE),
        Just(libc::FALLOC_FL_INSERT_RANGE),
        Just(libc::FALLOC_FL_ZERO_RANGE),
    ];
    let exchange = prop_oneof![Just(0), Just(libc::RENAME_EXCHANGE)];
    prop_oneof![
        3 => (0_usize..3, name.clone(), flags).prop_map(|(root, name, flags)| Step::Open { root, name, flags }),
        3 => (root.clone(), name.clone()).prop_map(|(root, name)| Step::Create { root, name }),
        6 => (handle.clone(), at.clone(), steps.clone())
            .prop_map(|(handle, at, steps)| Step::Write { handle, at, steps }),
        3 => (handle.clone(), mode, at.clone(), steps)
            .prop_map(|(handle, mode, at, steps)| Step::Allocate { handle, mode, at, steps }),
        1 => (handle.clone(), handle.clone(), at.clone()).prop_map(|(from, to, at)| Step::Copy { from, to, at }),
        2 => (prop::option::of(handle.clone()), root.clone(), name.clone(), at)
            .prop_map(|(handle, root, name, steps)| Step::Cut { handle, root, name, steps }),
        3 => handle.prop_map(|handle| Step::Close { handle }),
        3 => (root.clone(), name.clone()).prop_map(|(root, name)| Step::Unlink { root, name }),
        2 => (root.clone(), name.clone(), name.clone(), exchange)
            .prop_map(|(root, from, to, flags)| Step::Rename { root, from, to, flags }),
        1 => (root, name.clone(), name).prop_map(|(root, from, to)| Step::Link { root, from, to }),
        1 => Just(Step::Look),
        1 => Just(Step::Evict),
        1 => Just(Step::Init),
    ]
}

struct Attacker {
    several: Several,
    handles: Vec<(u64, u64)>,
}

impl Attacker {
    fn handle(&self, at: usize) -> Option<(u64, u64)> {
        (!self.handles.is_empty()).then(|| self.handles[at % self.handles.len()])
    }

    fn folder(&self, root: usize) -> io::Result<u64> {
        self.several.look_up(ROOT, &root.to_string())
    }

    fn file(&self, root: usize, name: usize) -> io::Result<u64> {
        let folder = self.folder(root)?;
        if root == 2 { Ok(folder) } else { self.several.look_up(folder, NAMES[name]) }
    }

    /// What is refused is of no interest.
    fn take(&mut self, step: &Step) -> io::Result<()> {
        let refused = || io::Error::from_raw_os_error(libc::EBADF);
        let share = &self.several.share;
        match *step {
            Step::Open { root, name, flags } => {
                let node = self.file(root, name)?;
                let handle = self.several.open(node, flags)?;
                self.handles.push((node, handle));
            }
            Step::Create { root, name } => {
                let flags = (libc::O_RDWR | libc::O_CREAT).cast_unsigned();
                let (folder, mode) = (self.folder(root)?, libc::S_IFREG | 0o644);
                let (entry, handle, _) = share.create(
                    context(),
                    folder,
                    &c(NAMES[name]),
                    mode,
                    false,
                    flags,
                    0,
                    Extensions::default(),
                )?;
                self.handles.push((entry.inode, handle.unwrap()));
            }
            Step::Write { handle, at, steps } => {
                let (node, handle) = self.handle(handle).ok_or_else(refused)?;
                let data = vec![7; usize::try_from(steps * STEP).unwrap()];
                self.several.write_at(node, handle, at * STEP, &data)?;
            }
            Step::Allocate { handle, mode, at, steps } => {
                let (node, handle) = self.handle(handle).ok_or_else(refused)?;
                share.fallocate(context(), node, handle, mode.cast_unsigned(), at * STEP, steps * STEP)?;
            }
            Step::Copy { from, to, at } => {
                let (from, to) =
                    (self.handle(from).ok_or_else(refused)?, self.handle(to).ok_or_else(refused)?);
                let length = 4 * STEP;
                share.copyfilerange(context(), from.0, from.1, 0, to.0, to.1, at * STEP, length, 0)?;
            }
            Step::Cut { handle, root, name, steps } => {
                let attr = SetattrIn { size: steps * STEP, ..SetattrIn::default() };
                let (node, handle) = match handle.and_then(|handle| self.handle(handle)) {
                    Some((node, handle)) => (node, Some(handle)),
                    None => (self.file(root, name)?, None),
                };
                share.setattr(context(), node, attr, handle, SetattrValid::SIZE)?;
            }
            Step::Close { handle } => {
                let (node, handle) = self.handle(handle).ok_or_else(refused)?;
                self.handles.retain(|(_, other)| *other != handle);
                self.several.close(node, handle)?;
            }
            Step::Unlink { root, name } => share.unlink(context(), self.folder(root)?, &c(NAMES[name]))?,
            Step::Rename { root, from, to, flags } => {
                let folder = self.folder(root)?;
                share.rename(context(), folder, &c(NAMES[from]), folder, &c(NAMES[to]), flags)?;
            }
            Step::Link { root, from, to } => {
                let (node, folder) = (self.file(root, from)?, self.folder(root)?);
                share.link(context(), node, folder, &c(NAMES[to]))?;
            }
            Step::Look => {
                for root in 0..3 {
                    for name in 0..NAMES.len() {
                        self.file(root, name).ok();
                    }
                }
            }
            Step::Evict => {
                let mut nodes = share.nodes();
                nodes.evict_all();
                share.tidy(&mut nodes);
            }
            Step::Init => {
                share.init(FsOptions::all())?;
                self.handles.clear();
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_on_the_disk_is_charged(steps in prop::collection::vec(step(), 1..80)) {
        let mut attacker = Attacker { several: Several::overlapping(LIMIT), handles: vec![] };
        for (at, step) in steps.iter().enumerate() {
            let result = attacker.take(step);
            let (on_disk, left) = (attacker.several.on_disk(), attacker.several.left());
            // Past the quota, the rest is nothing whatever is charged.
            let charged = if left == 0 { LIMIT + MIB } else { LIMIT.saturating_sub(left) };
            prop_assert!(on_disk <= charged + SLACK, "{on_disk} of {charged} after {at}: {step:?} {result:?}");
        }
        // What a single file's name led to before stays charged; all else is given back in the end.
        if !steps.iter().any(|step| matches!(step, Step::Open { root: 2, .. })) {
            while !attacker.handles.is_empty() {
                attacker.take(&Step::Close { handle: 0 }).unwrap();
            }
            for name in 0..NAMES.len() {
                attacker.take(&Step::Unlink { root: 0, name }).ok();
            }
            let left = attacker.several.left();
            prop_assert!(left.abs_diff(LIMIT) <= SLACK, "{left} of {LIMIT} is left of nothing");
        }
    }
}
