//! Opening, closing, and whatever changes a file's contents or attributes.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use virtiofsd::filesystem::{Context, FsOptions, OpenOptions, SetattrValid, ZeroCopyReader};
use virtiofsd::fuse::{Attr, SetattrIn};

use super::entries::flag;
use super::pinned::Pinned;
use super::{ShareFs, error};
use crate::nodes::{NodeId, ROOT};
use crate::policy::{self, Change};
use crate::quota::most_a_write_takes;

/// One copy by the host is bounded, so that no request runs for minutes.
const MOST_COPIED: u64 = 1 << 30;

/// One write request, apart from its data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub node: NodeId,
    pub handle: u64,
    pub size: u32,
    pub offset: u64,
    pub lock_owner: Option<u64>,
    pub delayed: bool,
    pub kill_priv: bool,
    pub flags: u32,
}

/// One end of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub node: NodeId,
    pub handle: u64,
    pub offset: u64,
}

impl ShareFs {
    pub(super) fn start(&self, capable: FsOptions) -> io::Result<FsOptions> {
        self.stop();
        self.submounts.store(capable.contains(FsOptions::SUBMOUNTS), Ordering::Relaxed);
        self.direct_io.store(capable.contains(FsOptions::DIRECT_IO_ALLOW_MMAP), Ordering::Relaxed);
        // Whatever the guest wants to know, the table must: inode numbers repeat across file systems.
        let options = self.inner.init(capable | FsOptions::SUBMOUNTS)?;
        let device = self.inner.device(ROOT).unwrap_or_default();
        self.nodes().mounted(ROOT, device);
        Ok(options)
    }

    pub(super) fn stop(&self) {
        self.credit_open_and_gone();
        self.inner.destroy();
        self.nodes().clear();
    }

    pub(super) fn open_file(
        &self,
        ctx: Context,
        node: NodeId,
        kill_priv: bool,
        flags: u32,
    ) -> io::Result<(Option<u64>, OpenOptions)> {
        policy::check_open(flags)?;
        let file = self.pin(ctx, node)?;
        self.check_still_there(ctx, &file)?;
        let access = flags.cast_signed() & libc::O_ACCMODE;
        let cuts = flags & flag(libc::O_TRUNC) != 0;
        if cuts || access != libc::O_RDONLY {
            self.judge(&Change::Write { node })?;
        }
        let open = || self.inner.open(ctx, file.inner, kill_priv, flags);
        let (handle, options) = if cuts { self.metered_file(node, file.inner, |_| 0, open) } else { open() }?;
        self.nodes().opened(node);
        Ok((handle, options | self.past_the_cache(access)))
    }

    /// The guest opens by a name that it may believe in for a second after the host has deleted or
    /// replaced the file. What it wrote there would be lost with the old file: `ESTALE` makes its kernel
    /// look the name up again, and open what is there now.
    fn check_still_there(&self, ctx: Context, file: &Pinned<'_>) -> io::Result<()> {
        let place = self.nodes().place(file.node).map(|(parent, name)| (parent, name.to_owned()));
        // Without a name it is a file that the guest itself deleted while it is open, and opens once more.
        let Some((parent, name)) = place else { return Ok(()) };
        let dir = self.pin(ctx, parent)?;
        match self.inner.lookup(ctx, dir.inner, &name) {
            Ok(entry) => {
                self.inner.forget(ctx, entry.inode, 1);
                if entry.inode == file.inner { Ok(()) } else { error(libc::ESTALE) }
            }
            Err(missing) if missing.raw_os_error() == Some(libc::ENOENT) => error(libc::ESTALE),
            Err(other) => Err(other),
        }
    }

    pub(super) fn open_directory(
        &self,
        ctx: Context,
        node: NodeId,
        flags: u32,
    ) -> io::Result<(Option<u64>, OpenOptions)> {
        policy::check_open(flags)?;
        let dir = self.pin(ctx, node)?;
        let opened = self.inner.opendir(ctx, dir.inner)?;
        self.nodes().opened(node);
        Ok(opened)
    }

    /// Closes by `close`, which is given the inner inode.
    pub(super) fn close(
        &self,
        ctx: Context,
        node: NodeId,
        close: impl FnOnce(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = self.pin(ctx, node)?;
        let result = close(file.inner);
        let mut nodes = self.nodes();
        // A single file's handle may have been closed before, when the guest went to sleep: it is counted, and
        // nothing is credited for it.
        if result.is_ok() || self.is_single_file(&nodes, node) {
            let last = nodes.closed(node);
            drop(nodes);
            if result.is_ok() && last {
                self.settle_closed(node, file.inner);
            }
        }
        result
    }

    pub(super) fn write_data(
        &self,
        ctx: Context,
        write: Write,
        data: impl ZeroCopyReader,
    ) -> io::Result<usize> {
        let file = self.pin(ctx, write.node)?;
        self.judge(&Change::Write { node: write.node })?;
        // The host appends where its file ends, wherever the guest says it does.
        let appends = write.flags & flag(libc::O_APPEND) != 0 && !write.delayed;
        let most = |attr: &Attr| {
            let offset = if appends { attr.size } else { write.offset };
            let length = u64::from(write.size);
            let most = most_a_write_takes(attr.size, attr.blocks.saturating_mul(512), offset, length);
            // A file that seems whole can have holes all the same, where it was allocated in advance behind its end,
            // by whichever server. What has none is written over always: of what is in the guest's page cache,
            // programs were told that it is written.
            if most == 0
                && self.quota().is_passed()
                && self.has_hole(ctx, &file, write.handle, offset, length)
            {
                return most_a_write_takes(0, 0, offset, length);
            }
            most
        };
        self.metered_handle(&file, write.handle, most, || {
            self.inner.write(
                ctx,
                file.inner,
                write.handle,
                data,
                write.size,
                write.offset,
                write.lock_owner,
                write.delayed,
                write.kill_priv,
                write.flags,
            )
        })
    }

    /// Whether the file has a hole there, or the host cannot tell.
    fn has_hole(&self, ctx: Context, file: &Pinned<'_>, handle: u64, offset: u64, length: u64) -> bool {
        let hole = self.inner.lseek(ctx, file.inner, handle, offset, libc::SEEK_HOLE.cast_unsigned());
        hole.map_or(true, |hole| hole < offset.saturating_add(length))
    }

    pub(super) fn allocate(
        &self,
        ctx: Context,
        node: NodeId,
        handle: u64,
        mode: u32,
        range: (u64, u64),
    ) -> io::Result<()> {
        let (offset, length) = range;
        let file = self.pin(ctx, node)?;
        self.judge(&Change::Write { node })?;
        let frees = flag(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_COLLAPSE_RANGE);
        let most = |_: &Attr| if mode & frees != 0 { 0 } else { most_a_write_takes(0, 0, offset, length) };
        self.metered_handle(&file, handle, most, || {
            self.inner.fallocate(ctx, file.inner, handle, mode, offset, length)
        })
    }

    pub(super) fn copy(
        &self,
        ctx: Context,
        from: End,
        to: End,
        length: u64,
        flags: u64,
    ) -> io::Result<usize> {
        let source = self.pin(ctx, from.node)?;
        let target = self.pin(ctx, to.node)?;
        self.judge(&Change::Write { node: to.node })?;
        let available = self.attributes(source.inner)?.size.saturating_sub(from.offset);
        let length = length.min(MOST_COPIED).min(available);
        let most = |_: &Attr| most_a_write_takes(0, 0, to.offset, length);
        self.metered_handle(&target, to.handle, most, || {
            self.inner.copyfilerange(
                ctx,
                source.inner,
                from.handle,
                from.offset,
                target.inner,
                to.handle,
                to.offset,
                length,
                flags,
            )
        })
    }

    pub(super) fn set_attributes(
        &self,
        ctx: Context,
        node: NodeId,
        mut attr: SetattrIn,
        handle: Option<u64>,
        mut valid: SetattrValid,
    ) -> io::Result<(Attr, Duration)> {
        let file = self.pin(ctx, node)?;
        // Whoever owns a file in the guest, the same user owns it on the host.
        valid.remove(SetattrValid::UID | SetattrValid::GID);
        attr.mode = policy::without_set_id(attr.mode);
        let resizes = valid.contains(SetattrValid::SIZE);
        if resizes {
            self.judge(&Change::Write { node })?;
        }
        if valid.intersects(SetattrValid::MODE | SetattrValid::ATIME | SetattrValid::MTIME) {
            self.judge(&Change::Attributes { node })?;
        }
        let set = || self.inner.setattr(ctx, file.inner, attr, handle, valid);
        if resizes { self.metered_file(node, file.inner, |_| 0, set) } else { set() }
    }

    pub(super) fn space(&self, ctx: Context, node: NodeId) -> io::Result<libc::statvfs64> {
        let file = self.pin(ctx, node)?;
        let mut space = self.inner.statfs(ctx, file.inner)?;
        let quota = self.quota();
        if let (Some(limit), Some(left)) = (quota.limit(), quota.bytes_left()) {
            let block = space.f_frsize.max(1);
            space.f_bavail = space.f_bavail.min(left / block);
            space.f_bfree = space.f_bfree.min(left / block);
            // The guest sees a disk as large as its quota, not the host's.
            space.f_blocks = space.f_blocks.min(limit.max(left) / block);
        }
        if let Some(inodes) = quota.inodes_left() {
            space.f_favail = space.f_favail.min(inodes);
            space.f_ffree = space.f_ffree.min(inodes);
        }
        Ok(space)
    }

    /// Files that are only written go past the guest's page cache: ten times faster, and a full quota
    /// is reported by the write it stops instead of a later one.
    pub(super) fn past_the_cache(&self, access: i32) -> OpenOptions {
        if access == libc::O_WRONLY && self.direct_io.load(Ordering::Relaxed) {
            OpenOptions::DIRECT_IO
        } else {
            OpenOptions::empty()
        }
    }
}
