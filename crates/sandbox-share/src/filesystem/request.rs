//! The table of requests.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

use virtiofsd::filesystem::{
    Context, Entry, Extensions, FileSystem, FsOptions, OpenOptions, SetattrValid, ZeroCopyReader,
    ZeroCopyWriter,
};
use virtiofsd::fuse::{Attr, SetattrIn};
use virtiofsd::passthrough::PassthroughFs;

use super::ShareFs;
use super::entries::Creation;
use super::io::{End, Write};
use crate::policy;

impl FileSystem for ShareFs {
    type Inode = u64;
    type Handle = u64;
    type DirIter = <PassthroughFs as FileSystem>::DirIter;

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        self.start(capable)
    }

    fn destroy(&self) {
        self.stop();
    }

    fn lookup(&self, ctx: Context, parent: u64, name: &CStr) -> io::Result<Entry> {
        self.look_up(ctx, parent, name)
    }

    fn forget(&self, _ctx: Context, node: u64, count: u64) {
        self.forget_node(node, count);
    }

    fn getattr(&self, ctx: Context, node: u64, _handle: Option<u64>) -> io::Result<(Attr, Duration)> {
        let file = self.pin(ctx, node)?;
        self.inner.getattr(ctx, file.inner, None)
    }

    fn setattr(
        &self,
        ctx: Context,
        node: u64,
        attr: SetattrIn,
        handle: Option<u64>,
        valid: SetattrValid,
    ) -> io::Result<(Attr, Duration)> {
        self.set_attributes(ctx, node, attr, handle, valid)
    }

    fn readlink(&self, ctx: Context, node: u64) -> io::Result<Vec<u8>> {
        let link = self.pin(ctx, node)?;
        self.inner.readlink(ctx, link.inner)
    }

    // Security labels and supplementary groups in `Extensions` are dropped by every request that
    // makes something: the server has one identity and cannot take another.

    fn symlink(
        &self,
        ctx: Context,
        target: &CStr,
        parent: u64,
        name: &CStr,
        _extensions: Extensions,
    ) -> io::Result<Entry> {
        self.make(ctx, parent, name, libc::S_IFLNK, |dir| {
            self.inner.symlink(ctx, target, dir, name, Extensions::default())
        })
    }

    fn mknod(
        &self,
        ctx: Context,
        parent: u64,
        name: &CStr,
        mode: u32,
        rdev: u32,
        umask: u32,
        _extensions: Extensions,
    ) -> io::Result<Entry> {
        let plain = policy::without_set_id(mode);
        self.make(ctx, parent, name, mode, |dir| {
            self.inner.mknod(ctx, dir, name, plain, rdev, umask, Extensions::default())
        })
    }

    fn mkdir(
        &self,
        ctx: Context,
        parent: u64,
        name: &CStr,
        mode: u32,
        umask: u32,
        _extensions: Extensions,
    ) -> io::Result<Entry> {
        let plain = policy::without_set_id(mode);
        self.make(ctx, parent, name, libc::S_IFDIR, |dir| {
            self.inner.mkdir(ctx, dir, name, plain, umask, Extensions::default())
        })
    }

    fn unlink(&self, ctx: Context, parent: u64, name: &CStr) -> io::Result<()> {
        self.remove(ctx, parent, name, false)
    }

    fn rmdir(&self, ctx: Context, parent: u64, name: &CStr) -> io::Result<()> {
        self.remove(ctx, parent, name, true)
    }

    fn rename(
        &self,
        ctx: Context,
        olddir: u64,
        oldname: &CStr,
        newdir: u64,
        newname: &CStr,
        flags: u32,
    ) -> io::Result<()> {
        self.rename_entry(ctx, (olddir, oldname), (newdir, newname), flags)
    }

    fn link(&self, ctx: Context, node: u64, newparent: u64, newname: &CStr) -> io::Result<Entry> {
        self.make_link(ctx, node, newparent, newname)
    }

    fn open(
        &self,
        ctx: Context,
        node: u64,
        kill_priv: bool,
        flags: u32,
    ) -> io::Result<(Option<u64>, OpenOptions)> {
        self.open_file(ctx, node, kill_priv, flags)
    }

    fn create(
        &self,
        ctx: Context,
        parent: u64,
        name: &CStr,
        mode: u32,
        kill_priv: bool,
        flags: u32,
        umask: u32,
        _extensions: Extensions,
    ) -> io::Result<(Entry, Option<u64>, OpenOptions)> {
        self.make_and_open(ctx, parent, name, Creation { mode, flags, umask, kill_priv })
    }

    fn read<W: ZeroCopyWriter>(
        &self,
        ctx: Context,
        node: u64,
        handle: u64,
        w: W,
        size: u32,
        offset: u64,
        lock_owner: Option<u64>,
        flags: u32,
    ) -> io::Result<usize> {
        let file = self.pin(ctx, node)?;
        self.inner.read(ctx, file.inner, handle, w, size, offset, lock_owner, flags)
    }

    fn write<R: ZeroCopyReader>(
        &self,
        ctx: Context,
        node: u64,
        handle: u64,
        r: R,
        size: u32,
        offset: u64,
        lock_owner: Option<u64>,
        delayed: bool,
        kill_priv: bool,
        flags: u32,
    ) -> io::Result<usize> {
        self.write_data(ctx, Write { node, handle, size, offset, lock_owner, delayed, kill_priv, flags }, r)
    }

    fn flush(&self, ctx: Context, node: u64, handle: u64, lock_owner: u64) -> io::Result<()> {
        let file = self.pin(ctx, node)?;
        self.inner.flush(ctx, file.inner, handle, lock_owner)
    }

    fn fsync(&self, ctx: Context, node: u64, datasync: bool, handle: u64) -> io::Result<()> {
        let file = self.pin(ctx, node)?;
        self.inner.fsync(ctx, file.inner, datasync, handle)
    }

    fn fallocate(
        &self,
        ctx: Context,
        node: u64,
        handle: u64,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        self.allocate(ctx, node, handle, mode, (offset, length))
    }

    fn release(
        &self,
        ctx: Context,
        node: u64,
        flags: u32,
        handle: u64,
        flush: bool,
        flock_release: bool,
        lock_owner: Option<u64>,
    ) -> io::Result<()> {
        self.close(ctx, node, |inner| {
            self.inner.release(ctx, inner, flags, handle, flush, flock_release, lock_owner)
        })
    }

    fn statfs(&self, ctx: Context, node: u64) -> io::Result<libc::statvfs64> {
        self.space(ctx, node)
    }

    fn opendir(&self, ctx: Context, node: u64, flags: u32) -> io::Result<(Option<u64>, OpenOptions)> {
        self.open_directory(ctx, node, flags)
    }

    fn readdir(
        &self,
        ctx: Context,
        node: u64,
        handle: u64,
        size: u32,
        offset: u64,
    ) -> io::Result<Self::DirIter> {
        // With attributes asked for, virtiofsd looks each entry up through this table.
        let dir = self.pin(ctx, node)?;
        self.inner.readdir(ctx, dir.inner, handle, size, offset)
    }

    fn fsyncdir(&self, ctx: Context, node: u64, datasync: bool, handle: u64) -> io::Result<()> {
        let dir = self.pin(ctx, node)?;
        self.inner.fsyncdir(ctx, dir.inner, datasync, handle)
    }

    fn releasedir(&self, ctx: Context, node: u64, flags: u32, handle: u64) -> io::Result<()> {
        self.close(ctx, node, |inner| self.inner.releasedir(ctx, inner, flags, handle))
    }

    fn access(&self, ctx: Context, node: u64, mask: u32) -> io::Result<()> {
        let file = self.pin(ctx, node)?;
        self.inner.access(ctx, file.inner, mask)
    }

    fn lseek(&self, ctx: Context, node: u64, handle: u64, offset: u64, whence: u32) -> io::Result<u64> {
        let file = self.pin(ctx, node)?;
        self.inner.lseek(ctx, file.inner, handle, offset, whence)
    }

    fn copyfilerange(
        &self,
        ctx: Context,
        node_in: u64,
        handle_in: u64,
        offset_in: u64,
        node_out: u64,
        handle_out: u64,
        offset_out: u64,
        len: u64,
        flags: u64,
    ) -> io::Result<usize> {
        let from = End { node: node_in, handle: handle_in, offset: offset_in };
        let to = End { node: node_out, handle: handle_out, offset: offset_out };
        self.copy(ctx, from, to, len, flags)
    }

    fn syncfs(&self, ctx: Context, node: u64) -> io::Result<()> {
        let dir = self.pin(ctx, node)?;
        self.inner.syncfs(ctx, dir.inner)
    }
}
