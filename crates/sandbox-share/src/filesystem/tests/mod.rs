//! The file system against real folders, spoken to as virtiofsd speaks to it for a guest.

mod descriptors;
mod names;
mod quota;
mod several;
mod sleep;
mod walls;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tempfile::TempDir;
use virtiofsd::filesystem::{
    Context, DirectoryIterator, Entry, Extensions, FileSystem, FsOptions, SetattrValid, ZeroCopyReader,
    ZeroCopyWriter,
};
use virtiofsd::fuse::{Attr, SetattrIn};
use virtiofsd::oslib::{ReadvFlags, WritevFlags};
use virtiofsd::passthrough::{self, PassthroughFs};

use super::{BELIEF, ShareFs};
use crate::nodes::ROOT;
use crate::policy::AllowAll;

const PLENTY: u64 = 1 << 40;

/// A shared folder and a guest that uses it.
struct Guest {
    share: ShareFs,
    dir: TempDir,
}

impl Guest {
    fn with(budget: u64, quota_bytes: u64) -> Self {
        Self::limited(budget, PLENTY, quota_bytes)
    }

    /// `hard` is where the pass-through file system refuses to open more files.
    fn limited(budget: u64, hard: u64, quota_bytes: u64) -> Self {
        Self::on(tempfile::tempdir().unwrap(), budget, hard, quota_bytes)
    }

    fn on(dir: TempDir, budget: u64, hard: u64, quota_bytes: u64) -> Self {
        let share = ShareFs::new(pass_through(&dir, hard), Box::new(AllowAll), budget, quota_bytes);
        let share = share.opening_at_most(hard);
        share.init(FsOptions::all()).unwrap();
        Self { share, dir }
    }

    fn host(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn look_up(&self, parent: u64, name: &str) -> io::Result<Entry> {
        self.share.lookup(context(), parent, &c(name))
    }

    /// Walks `path` as a guest's kernel does; the node at its end.
    fn node(&self, path: &str) -> u64 {
        self.try_node(path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn try_node(&self, path: &str) -> io::Result<u64> {
        path.split('/').try_fold(ROOT, |at, name| match self.look_up(at, name)?.inode {
            0 => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            node => Ok(node),
        })
    }

    fn attributes(&self, node: u64) -> io::Result<Attr> {
        self.share.getattr(context(), node, None).map(|(attr, _)| attr)
    }

    fn create(&self, parent: u64, name: &str) -> io::Result<(u64, u64)> {
        self.create_as(parent, name, 0o644, libc::O_RDWR)
    }

    fn create_as(&self, parent: u64, name: &str, mode: u32, flags: i32) -> io::Result<(u64, u64)> {
        let flags = (flags | libc::O_CREAT).cast_unsigned();
        let result = self.share.create(
            context(),
            parent,
            &c(name),
            libc::S_IFREG | mode,
            false,
            flags,
            0,
            Extensions::default(),
        );
        result.map(|(entry, handle, _)| (entry.inode, handle.unwrap()))
    }

    fn mkdir(&self, parent: u64, name: &str) -> io::Result<u64> {
        let made = self.share.mkdir(context(), parent, &c(name), 0o755, 0, Extensions::default());
        made.map(|entry| entry.inode)
    }

    fn open(&self, node: u64, flags: i32) -> io::Result<u64> {
        let opened = self.share.open(context(), node, false, flags.cast_unsigned());
        opened.map(|(handle, _)| handle.unwrap())
    }

    fn write(&self, node: u64, handle: u64, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let size = u32::try_from(bytes.len()).unwrap();
        self.share.write(context(), node, handle, Data(bytes.to_vec()), size, offset, None, false, false, 0)
    }

    /// As a file opened to append, of which a `delayed` write comes from the guest's cache.
    fn append(&self, node: u64, handle: u64, bytes: &[u8], delayed: bool) -> io::Result<usize> {
        let size = u32::try_from(bytes.len()).unwrap();
        let (data, flags) = (Data(bytes.to_vec()), libc::O_APPEND.cast_unsigned());
        self.share.write(context(), node, handle, data, size, 0, None, delayed, false, flags)
    }

    fn read(&self, node: u64, handle: u64) -> io::Result<Vec<u8>> {
        let mut data = Data(vec![]);
        self.share.read(context(), node, handle, &mut data, 1 << 20, 0, None, 0)?;
        Ok(data.0)
    }

    fn close(&self, node: u64, handle: u64) {
        self.share.release(context(), node, 0, handle, false, false, None).unwrap();
    }

    /// The whole contents of `path`, by a walk from the root.
    fn contents(&self, path: &str) -> Vec<u8> {
        let node = self.node(path);
        let handle = self.open(node, libc::O_RDONLY).unwrap();
        let contents = self.read(node, handle).unwrap();
        self.close(node, handle);
        contents
    }

    fn make(&self, name: &str, bytes: &[u8]) -> u64 {
        let (node, handle) = self.create(ROOT, name).unwrap();
        self.write(node, handle, 0, bytes).unwrap();
        self.close(node, handle);
        node
    }

    fn rename(&self, from: (u64, &str), to: (u64, &str), flags: u32) -> io::Result<()> {
        self.share.rename(context(), from.0, &c(from.1), to.0, &c(to.1), flags)
    }

    fn unlink(&self, parent: u64, name: &str) -> io::Result<()> {
        self.share.unlink(context(), parent, &c(name))
    }

    fn set(&self, node: u64, attr: SetattrIn, valid: SetattrValid) -> io::Result<Attr> {
        self.share.setattr(context(), node, attr, None, valid).map(|(attr, _)| attr)
    }

    fn resize(&self, node: u64, size: u64) -> io::Result<Attr> {
        self.set(node, SetattrIn { size, ..SetattrIn::default() }, SetattrValid::SIZE)
    }

    /// Lists `node` and looks up every entry, as virtiofsd does when a guest asks for attributes too.
    fn list(&self, node: u64) -> io::Result<Vec<(String, u64)>> {
        let (handle, _) = self.share.opendir(context(), node, 0)?;
        let handle = handle.unwrap();
        let mut entries = Vec::new();
        let mut offset = 0;
        loop {
            let mut batch = self.share.readdir(context(), node, handle, 1 << 16, offset)?;
            let before = offset;
            while let Some(entry) = batch.next() {
                offset = entry.offset;
                let name = entry.name.to_str().unwrap();
                if name != "." && name != ".." {
                    entries.push((name.to_owned(), self.look_up(node, name)?.inode));
                }
            }
            if offset == before {
                break;
            }
        }
        self.share.releasedir(context(), node, 0, handle)?;
        Ok(entries)
    }

    fn descriptors(&self) -> u64 {
        self.share.nodes().descriptors()
    }

    /// Closes what is only cached, as a walk over many other files would.
    fn evict_all(&self) {
        let mut nodes = self.share.nodes();
        nodes.set_budget(0);
        self.share.tidy(&mut nodes);
        nodes.set_budget(PLENTY);
    }
}

fn pass_through(dir: &TempDir, hard: u64) -> PassthroughFs {
    PassthroughFs::new(passthrough::Config {
        root_dir: dir.path().to_str().unwrap().to_owned(),
        entry_timeout: BELIEF,
        attr_timeout: BELIEF,
        announce_submounts: true,
        allow_mmap: true,
        guest_fd_limit: hard,
        migration_on_error: passthrough::MigrationOnError::GuestError,
        ..Default::default()
    })
    .unwrap()
}

fn context() -> Context {
    Context { uid: 0.into(), gid: 0.into(), pid: 1 }
}

fn c(name: &str) -> CString {
    CString::new(name).unwrap()
}

fn number<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// The guest's memory that data is read into and written from.
struct Data(Vec<u8>);

impl ZeroCopyReader for Data {
    fn write_to_file_at(
        &mut self,
        file: &File,
        count: usize,
        offset: u64,
        flags: Option<WritevFlags>,
    ) -> io::Result<usize> {
        let appends = flags.is_some_and(|flags| flags.contains(WritevFlags::RWF_APPEND));
        let offset = if appends { file.metadata()?.len() } else { offset };
        file.write_at(&self.0[..count.min(self.0.len())], offset)
    }
}

impl ZeroCopyWriter for Data {
    fn read_from_file_at(
        &mut self,
        file: &File,
        count: usize,
        offset: u64,
        _: Option<ReadvFlags>,
    ) -> io::Result<usize> {
        let mut buffer = vec![0; count];
        let length = file.read_at(&mut buffer, offset)?;
        self.0.extend_from_slice(&buffer[..length]);
        Ok(length)
    }
}
