//! Looking names up, and making new ones.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

use virtiofsd::filesystem::{Context, Entry, Extensions, OpenOptions};
use virtiofsd::fuse::Attr;

use super::pinned::Novelty;
use super::{BELIEF, ShareFs, error};
use crate::nodes::{InnerId, NodeId};
use crate::policy::{self, Change};
use crate::quota::BLOCK;

/// How a file shall be made and opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Creation {
    pub mode: u32,
    pub flags: u32,
    pub umask: u32,
    pub kill_priv: bool,
}

impl ShareFs {
    pub(super) fn look_up(&self, ctx: Context, parent: NodeId, name: &CStr) -> io::Result<Entry> {
        policy::check_name(name)?;
        let dir = self.pin(ctx, parent)?;
        match self.inner.lookup(ctx, dir.inner, name) {
            Ok(mut entry) => {
                self.introduce(ctx, parent, name, &mut entry, Novelty::MayBeKnown)?;
                Ok(entry)
            }
            Err(missing) if missing.raw_os_error() == Some(libc::ENOENT) => Ok(absent()),
            Err(other) => Err(other),
        }
    }

    /// Makes an entry by `make`, which is given the directory's inner inode.
    pub(super) fn make(
        &self,
        ctx: Context,
        parent: NodeId,
        name: &CStr,
        kind: u32,
        make: impl FnOnce(InnerId) -> io::Result<Entry>,
    ) -> io::Result<Entry> {
        self.make_as(ctx, parent, name, (kind, Novelty::New), make)
    }

    fn make_as(
        &self,
        ctx: Context,
        parent: NodeId,
        name: &CStr,
        (kind, novelty): (u32, Novelty),
        make: impl FnOnce(InnerId) -> io::Result<Entry>,
    ) -> io::Result<Entry> {
        policy::check_name(name)?;
        policy::check_kind(kind)?;
        let dir = self.pin(ctx, parent)?;
        self.judge(&Change::Make { dir: parent, name, kind: kind & libc::S_IFMT, of: None })?;
        self.room_for_one_more()?;
        // The directory itself may grow by a block.
        let mut entry = self.metered(dir.inner, |_| BLOCK, || make(dir.inner))?;
        self.charge_new(parent, &entry.attr);
        self.introduce(ctx, parent, name, &mut entry, novelty)?;
        Ok(entry)
    }

    pub(super) fn make_and_open(
        &self,
        ctx: Context,
        parent: NodeId,
        name: &CStr,
        creation: Creation,
    ) -> io::Result<(Entry, Option<u64>, OpenOptions)> {
        policy::check_open(creation.flags)?;
        // Asked for exclusively, so that it is certain whether the file is new.
        let exclusive = creation.flags | flag(libc::O_EXCL);
        let mode = policy::without_set_id(creation.mode);
        let mut opened = None;
        let result = self.make_as(ctx, parent, name, (libc::S_IFREG, Novelty::NewAndOpen), |dir| {
            let (entry, handle, options) = self.inner.create(
                ctx,
                dir,
                name,
                mode,
                creation.kill_priv,
                exclusive,
                creation.umask,
                Extensions::default(),
            )?;
            opened = Some((handle, options));
            Ok(entry)
        });
        match (result, opened) {
            (Ok(entry), Some((handle, options))) => {
                Ok((entry, handle, options | self.past_the_cache(libc::O_WRONLY)))
            }
            (Err(exists), _)
                if exists.kind() == io::ErrorKind::AlreadyExists && exclusive != creation.flags =>
            {
                self.open_existing(ctx, parent, name, creation)
            }
            (Err(other), _) => Err(other),
            (Ok(_), None) => error(libc::EIO),
        }
    }

    pub(super) fn make_link(
        &self,
        ctx: Context,
        node: NodeId,
        parent: NodeId,
        name: &CStr,
    ) -> io::Result<Entry> {
        policy::check_name(name)?;
        let file = self.pin(ctx, node)?;
        let dir = self.pin(ctx, parent)?;
        let kind = self.attributes(file.inner)?.mode & libc::S_IFMT;
        self.judge(&Change::Make { dir: parent, name, kind, of: Some(node) })?;
        let link = || self.inner.link(ctx, file.inner, dir.inner, name);
        let mut entry = self.metered(dir.inner, |_| BLOCK, link)?;
        self.introduce(ctx, parent, name, &mut entry, Novelty::MayBeKnown)?;
        Ok(entry)
    }

    /// The host, or another process of the guest, was first.
    fn open_existing(
        &self,
        ctx: Context,
        parent: NodeId,
        name: &CStr,
        creation: Creation,
    ) -> io::Result<(Entry, Option<u64>, OpenOptions)> {
        let entry = self.look_up(ctx, parent, name)?;
        if entry.inode == 0 {
            return error(libc::ENOENT);
        }
        let flags = creation.flags & !flag(libc::O_CREAT);
        match self.open_file(ctx, entry.inode, creation.kill_priv, flags) {
            Ok((handle, options)) => Ok((entry, handle, options)),
            Err(refused) => {
                // The guest will not hear of the entry, so it cannot forget it.
                self.forget_node(entry.inode, 1);
                Err(refused)
            }
        }
    }

    pub(super) fn forget_node(&self, node: NodeId, count: u64) {
        let mut nodes = self.nodes();
        nodes.forget(node, count);
        self.tidy(&mut nodes);
    }
}

/// Tells the guest that the name does not exist, and for how long it may believe so.
fn absent() -> Entry {
    Entry {
        inode: 0,
        generation: 0,
        attr: Attr::default(),
        attr_timeout: Duration::ZERO,
        entry_timeout: BELIEF,
    }
}

/// An open flag as the guest sends it.
pub(super) fn flag(flag: i32) -> u32 {
    flag.cast_unsigned()
}
