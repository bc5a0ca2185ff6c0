//! The requests that the share makes, each handed to the folder it is about.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

use virtiofsd::filesystem::{
    Context, Entry, Extensions, FileSystem, FsOptions, OpenOptions, SetattrValid, ZeroCopyReader,
    ZeroCopyWriter,
};
use virtiofsd::fuse::{Attr, SetattrIn};

use super::{Fs, Roots, SHIFT, lowered, raised};
use crate::filesystem::{BELIEF, error, lock};
use crate::nodes::ROOT;

/// What our root looks like: a folder that nobody changes.
fn top_attributes() -> Attr {
    Attr { ino: ROOT, mode: libc::S_IFDIR | 0o555, nlink: 2, blksize: 4096, ..Attr::default() }
}

fn writes(flags: u32) -> bool {
    let flags = flags.cast_signed();
    flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_TRUNC | libc::O_CREAT) != 0
}

#[allow(clippy::too_many_arguments, reason = "as the requests themselves")]
impl Roots {
    pub(super) fn is_top(&self, inode: u64) -> bool {
        matches!(self, Self::Several { .. }) && inode == ROOT
    }

    pub(in crate::filesystem) fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        match self {
            Self::One(fs) => fs.init(capable),
            Self::Several { roots, .. } => {
                let mut options = FsOptions::all();
                for root in roots {
                    rustix::process::fchdir(&root.dir)?;
                    options &= root.fs.init(capable)?;
                }
                Ok(options)
            }
        }
    }

    pub(in crate::filesystem) fn destroy(&self) {
        match self {
            Self::One(fs) => fs.destroy(),
            Self::Several { roots, opened, .. } => {
                for root in roots {
                    root.fs.destroy();
                }
                lock(opened).clear();
            }
        }
    }

    pub(in crate::filesystem) fn lookup(&self, ctx: Context, parent: u64, name: &CStr) -> io::Result<Entry> {
        if self.is_top(parent) {
            return self.top(name);
        }
        let (fs, upper, parent) = self.of(parent)?;
        fs.lookup(ctx, parent, name).map(|entry| raised(entry, upper))
    }

    pub(in crate::filesystem) fn forget(&self, ctx: Context, inode: u64, count: u64) {
        if let Ok((fs, upper, inode)) = self.of(inode)
            // The root of a folder is never looked up, so it is never forgotten.
            && (upper == 0 || inode != ROOT)
        {
            fs.forget(ctx, inode, count);
        }
    }

    pub(in crate::filesystem) fn getattr(
        &self,
        ctx: Context,
        inode: u64,
        handle: Option<u64>,
    ) -> io::Result<(Attr, Duration)> {
        if self.is_top(inode) {
            return Ok((top_attributes(), BELIEF));
        }
        let (fs, upper, inode) = self.of(inode)?;
        fs.getattr(ctx, inode, handle.map(|handle| lowered(handle, upper)).transpose()?)
    }

    pub(in crate::filesystem) fn setattr(
        &self,
        ctx: Context,
        inode: u64,
        attr: SetattrIn,
        handle: Option<u64>,
        valid: SetattrValid,
    ) -> io::Result<(Attr, Duration)> {
        let inode = handle.map_or(inode, |handle| self.opened_as(inode, handle));
        let (fs, upper, inode) = self.to_change(inode)?;
        fs.setattr(ctx, inode, attr, handle.map(|handle| lowered(handle, upper)).transpose()?, valid)
    }

    pub(in crate::filesystem) fn readlink(&self, ctx: Context, inode: u64) -> io::Result<Vec<u8>> {
        let (fs, _, inode) = self.of(inode)?;
        fs.readlink(ctx, inode)
    }

    pub(in crate::filesystem) fn symlink(
        &self,
        ctx: Context,
        target: &CStr,
        parent: u64,
        name: &CStr,
        extensions: Extensions,
    ) -> io::Result<Entry> {
        let (fs, upper, parent) = self.to_change(parent)?;
        fs.symlink(ctx, target, parent, name, extensions).map(|entry| raised(entry, upper))
    }

    pub(in crate::filesystem) fn mknod(
        &self,
        ctx: Context,
        parent: u64,
        name: &CStr,
        mode: u32,
        rdev: u32,
        umask: u32,
        extensions: Extensions,
    ) -> io::Result<Entry> {
        let (fs, upper, parent) = self.to_change(parent)?;
        fs.mknod(ctx, parent, name, mode, rdev, umask, extensions).map(|entry| raised(entry, upper))
    }

    pub(in crate::filesystem) fn mkdir(
        &self,
        ctx: Context,
        parent: u64,
        name: &CStr,
        mode: u32,
        umask: u32,
        extensions: Extensions,
    ) -> io::Result<Entry> {
        let (fs, upper, parent) = self.to_change(parent)?;
        fs.mkdir(ctx, parent, name, mode, umask, extensions).map(|entry| raised(entry, upper))
    }

    pub(in crate::filesystem) fn unlink(&self, ctx: Context, parent: u64, name: &CStr) -> io::Result<()> {
        let (fs, _, parent) = self.to_change(parent)?;
        fs.unlink(ctx, parent, name)
    }

    pub(in crate::filesystem) fn rmdir(&self, ctx: Context, parent: u64, name: &CStr) -> io::Result<()> {
        let (fs, _, parent) = self.to_change(parent)?;
        fs.rmdir(ctx, parent, name)
    }

    pub(in crate::filesystem) fn rename(
        &self,
        ctx: Context,
        from: u64,
        old: &CStr,
        to: u64,
        new: &CStr,
        flags: u32,
    ) -> io::Result<()> {
        let (fs, _, from, to) = self.pair(from, to)?;
        fs.rename(ctx, from, old, to, new, flags)
    }

    pub(in crate::filesystem) fn link(
        &self,
        ctx: Context,
        inode: u64,
        parent: u64,
        name: &CStr,
    ) -> io::Result<Entry> {
        let (fs, upper, inode, parent) = self.pair(inode, parent)?;
        fs.link(ctx, inode, parent, name).map(|entry| raised(entry, upper))
    }

    pub(in crate::filesystem) fn open(
        &self,
        ctx: Context,
        inode: u64,
        kill_priv: bool,
        flags: u32,
    ) -> io::Result<(Option<u64>, OpenOptions)> {
        let whole = inode;
        let (fs, upper, inode) = if writes(flags) { self.to_change(inode)? } else { self.of(inode)? };
        let (handle, options) = fs.open(ctx, inode, kill_priv, flags)?;
        let handle = handle.map(|handle| handle | upper);
        self.note_opened(whole, handle);
        Ok((handle, options))
    }

    pub(in crate::filesystem) fn create(
        &self,
        ctx: Context,
        parent: u64,
        name: &CStr,
        mode: u32,
        kill_priv: bool,
        flags: u32,
        umask: u32,
        extensions: Extensions,
    ) -> io::Result<(Entry, Option<u64>, OpenOptions)> {
        let (fs, upper, parent) = self.to_change(parent)?;
        let (entry, handle, options) =
            fs.create(ctx, parent, name, mode, kill_priv, flags, umask, extensions)?;
        Ok((raised(entry, upper), handle.map(|handle| handle | upper), options))
    }

    pub(in crate::filesystem) fn read<W: ZeroCopyWriter>(
        &self,
        ctx: Context,
        inode: u64,
        handle: u64,
        to: W,
        size: u32,
        offset: u64,
        lock_owner: Option<u64>,
        flags: u32,
    ) -> io::Result<usize> {
        let (fs, upper, inode) = self.of(self.opened_as(inode, handle))?;
        fs.read(ctx, inode, lowered(handle, upper)?, to, size, offset, lock_owner, flags)
    }

    pub(in crate::filesystem) fn write<R: ZeroCopyReader>(
        &self,
        ctx: Context,
        inode: u64,
        handle: u64,
        from: R,
        size: u32,
        offset: u64,
        lock_owner: Option<u64>,
        delayed: bool,
        kill_priv: bool,
        flags: u32,
    ) -> io::Result<usize> {
        let (fs, upper, inode) = self.to_change(self.opened_as(inode, handle))?;
        fs.write(
            ctx,
            inode,
            lowered(handle, upper)?,
            from,
            size,
            offset,
            lock_owner,
            delayed,
            kill_priv,
            flags,
        )
    }

    pub(in crate::filesystem) fn flush(
        &self,
        ctx: Context,
        inode: u64,
        handle: u64,
        lock_owner: u64,
    ) -> io::Result<()> {
        let (fs, upper, inode) = self.of(self.opened_as(inode, handle))?;
        fs.flush(ctx, inode, lowered(handle, upper)?, lock_owner)
    }

    pub(in crate::filesystem) fn fsync(
        &self,
        ctx: Context,
        inode: u64,
        datasync: bool,
        handle: u64,
    ) -> io::Result<()> {
        let (fs, upper, inode) = self.of(self.opened_as(inode, handle))?;
        fs.fsync(ctx, inode, datasync, lowered(handle, upper)?)
    }

    pub(in crate::filesystem) fn fallocate(
        &self,
        ctx: Context,
        inode: u64,
        handle: u64,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        let (fs, upper, inode) = self.to_change(self.opened_as(inode, handle))?;
        fs.fallocate(ctx, inode, lowered(handle, upper)?, mode, offset, length)
    }

    pub(in crate::filesystem) fn release(
        &self,
        ctx: Context,
        inode: u64,
        flags: u32,
        handle: u64,
        flush: bool,
        flock_release: bool,
        lock_owner: Option<u64>,
    ) -> io::Result<()> {
        let (fs, upper, inode) = self.of(self.opened_as(inode, handle))?;
        fs.release(ctx, inode, flags, lowered(handle, upper)?, flush, flock_release, lock_owner)?;
        if let Self::Several { opened, .. } = self {
            lock(opened).remove(&handle);
        }
        Ok(())
    }

    pub(in crate::filesystem) fn statfs(&self, ctx: Context, inode: u64) -> io::Result<libc::statvfs64> {
        let first = (1 << SHIFT) | ROOT;
        let (fs, _, inode) = self.of(if self.is_top(inode) { first } else { inode })?;
        fs.statfs(ctx, inode)
    }

    pub(in crate::filesystem) fn opendir(
        &self,
        ctx: Context,
        inode: u64,
    ) -> io::Result<(Option<u64>, OpenOptions)> {
        let (fs, upper, inode) = self.of(inode)?;
        // A folder is only ever read: nothing else that the guest asks for reaches the host.
        let flags = (libc::O_RDONLY | libc::O_DIRECTORY).cast_unsigned();
        let (handle, options) = fs.opendir(ctx, inode, flags)?;
        Ok((handle.map(|handle| handle | upper), options))
    }

    pub(in crate::filesystem) fn readdir(
        &self,
        ctx: Context,
        inode: u64,
        handle: u64,
        size: u32,
        offset: u64,
    ) -> io::Result<<Fs as FileSystem>::DirIter> {
        let (fs, upper, inode) = self.of(inode)?;
        fs.readdir(ctx, inode, lowered(handle, upper)?, size, offset)
    }

    pub(in crate::filesystem) fn fsyncdir(
        &self,
        ctx: Context,
        inode: u64,
        datasync: bool,
        handle: u64,
    ) -> io::Result<()> {
        let (fs, upper, inode) = self.of(inode)?;
        fs.fsyncdir(ctx, inode, datasync, lowered(handle, upper)?)
    }

    pub(in crate::filesystem) fn releasedir(
        &self,
        ctx: Context,
        inode: u64,
        flags: u32,
        handle: u64,
    ) -> io::Result<()> {
        let (fs, upper, inode) = self.of(inode)?;
        fs.releasedir(ctx, inode, flags, lowered(handle, upper)?)
    }

    pub(in crate::filesystem) fn access(&self, ctx: Context, inode: u64, mask: u32) -> io::Result<()> {
        if self.is_top(inode) {
            return Ok(());
        }
        let (fs, _, inode) = self.of(inode)?;
        fs.access(ctx, inode, mask)
    }

    pub(in crate::filesystem) fn lseek(
        &self,
        ctx: Context,
        inode: u64,
        handle: u64,
        offset: u64,
        whence: u32,
    ) -> io::Result<u64> {
        let (fs, upper, inode) = self.of(self.opened_as(inode, handle))?;
        fs.lseek(ctx, inode, lowered(handle, upper)?, offset, whence)
    }

    pub(in crate::filesystem) fn copyfilerange(
        &self,
        ctx: Context,
        from: u64,
        from_handle: u64,
        from_offset: u64,
        to: u64,
        to_handle: u64,
        to_offset: u64,
        length: u64,
        flags: u64,
    ) -> io::Result<usize> {
        let (from, to) = (self.opened_as(from, from_handle), self.opened_as(to, to_handle));
        let ((_, source, from), (fs, target, to)) = (self.of(from)?, self.to_change(to)?);
        if source != target {
            return error(libc::EXDEV);
        }
        let (from_handle, to_handle) = (lowered(from_handle, source)?, lowered(to_handle, target)?);
        fs.copyfilerange(ctx, from, from_handle, from_offset, to, to_handle, to_offset, length, flags)
    }

    pub(in crate::filesystem) fn syncfs(&self, ctx: Context, inode: u64) -> io::Result<()> {
        match self {
            Self::Several { roots, .. } => roots.iter().try_for_each(|root| root.fs.syncfs(ctx, ROOT)),
            Self::One(fs) => fs.syncfs(ctx, inode),
        }
    }
}
