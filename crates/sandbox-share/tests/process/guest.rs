//! A guest's kernel, as far as it sends requests.

use std::os::unix::net::UnixStream;

use virtiofsd::fuse::{
    AttrOut, CreateIn, EntryOut, FallocateIn, FlushIn, FsyncIn, GetattrIn, InHeader, InitInCompat, LinkIn,
    MkdirIn, MknodIn, Opcode, OpenIn, OpenOut, OutHeader, ReadIn, ReleaseIn, Rename2In, SetattrIn, WriteIn,
};
use vm_memory::ByteValued;

use crate::front_end::FrontEnd;

pub const ROOT: u64 = 1;
const HEADER: usize = size_of::<OutHeader>();

pub struct Guest {
    front: FrontEnd,
    unique: u64,
    uid: u32,
}

/// What the server answered: data, or an error's number.
pub type Answer = Result<Vec<u8>, i32>;

pub fn object<T: ByteValued + Default>(bytes: &[u8]) -> T {
    let mut object = T::default();
    object.as_mut_slice().copy_from_slice(&bytes[..size_of::<T>()]);
    object
}

impl Guest {
    /// A guest whose requests come from user `uid`.
    pub fn boot(socket: UnixStream, uid: u32) -> Self {
        let mut guest = Self { front: FrontEnd::connect(socket), unique: 0, uid };
        let init = InitInCompat { major: 7, minor: 40, max_readahead: 1 << 17, flags: !(1 << 30) };
        guest.ask(Opcode::Init, 0, &[init.as_slice()]).unwrap();
        guest
    }

    /// From now on, requests come from user `uid`.
    pub fn act_as(&mut self, uid: u32) {
        self.uid = uid;
    }

    pub fn try_ask(&mut self, opcode: Opcode, node: u64, parts: &[&[u8]]) -> Option<Answer> {
        self.unique += 1;
        let length = size_of::<InHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
        let header = InHeader {
            len: u32::try_from(length).unwrap(),
            opcode: opcode as u32,
            unique: self.unique,
            nodeid: node,
            uid: self.uid.into(),
            gid: self.uid.into(),
            pid: 1,
            ..InHeader::default()
        };
        let mut request = header.as_slice().to_vec();
        for part in parts {
            request.extend_from_slice(part);
        }
        let reply = self.front.exchange(&request)?;
        let out: OutHeader = object(&reply);
        assert_eq!(out.unique, self.unique);
        Some(if out.error == 0 { Ok(reply[HEADER..].to_vec()) } else { Err(-out.error) })
    }

    pub fn ask(&mut self, opcode: Opcode, node: u64, parts: &[&[u8]]) -> Answer {
        self.try_ask(opcode, node, parts).expect("the server answers")
    }

    pub fn look_up(&mut self, parent: u64, name: &str) -> Result<EntryOut, i32> {
        match self
            .ask(Opcode::Lookup, parent, &[name.as_bytes(), b"\0"])
            .map(|reply| object::<EntryOut>(&reply))
        {
            Ok(entry) if entry.nodeid == 0 => Err(2),
            other => other,
        }
    }

    pub fn create(&mut self, parent: u64, name: &str, mode: u32) -> Result<(EntryOut, u64), i32> {
        let create = CreateIn { flags: 0o102, mode: 0o100_000 | mode, ..CreateIn::default() };
        let reply = self.ask(Opcode::Create, parent, &[create.as_slice(), name.as_bytes(), b"\0"])?;
        let opened: OpenOut = object(&reply[size_of::<EntryOut>()..]);
        Ok((object(&reply), opened.fh))
    }

    pub fn open(&mut self, node: u64, flags: u32) -> Result<u64, i32> {
        let open = OpenIn { flags, ..OpenIn::default() };
        self.ask(Opcode::Open, node, &[open.as_slice()]).map(|reply| object::<OpenOut>(&reply).fh)
    }

    pub fn write(&mut self, node: u64, handle: u64, bytes: &[u8]) -> Answer {
        let size = u32::try_from(bytes.len()).unwrap();
        let write = WriteIn { fh: handle, size, ..WriteIn::default() };
        self.ask(Opcode::Write, node, &[write.as_slice(), bytes])
    }

    pub fn read(&mut self, node: u64, handle: u64) -> Answer {
        let read = ReadIn { fh: handle, size: 4096, ..ReadIn::default() };
        self.ask(Opcode::Read, node, &[read.as_slice()])
    }

    pub fn release(&mut self, node: u64, handle: u64) -> Answer {
        let release = ReleaseIn { fh: handle, ..ReleaseIn::default() };
        self.ask(Opcode::Release, node, &[release.as_slice()])
    }

    pub fn attributes(&mut self, node: u64) -> Result<AttrOut, i32> {
        self.ask(Opcode::Getattr, node, &[GetattrIn::default().as_slice()]).map(|reply| object(&reply))
    }

    pub fn set(&mut self, node: u64, set: SetattrIn) -> Answer {
        self.ask(Opcode::Setattr, node, &[set.as_slice()])
    }

    pub fn mkdir(&mut self, parent: u64, name: &str) -> Result<EntryOut, i32> {
        let mkdir = MkdirIn { mode: 0o755, umask: 0 };
        self.ask(Opcode::Mkdir, parent, &[mkdir.as_slice(), name.as_bytes(), b"\0"])
            .map(|reply| object(&reply))
    }

    /// Names and nodes of a whole folder, with attributes, as `ls -l` asks for them.
    pub fn list(&mut self, node: u64) -> Result<Vec<(String, u64)>, i32> {
        let reply = self.ask(Opcode::Opendir, node, &[OpenIn::default().as_slice()])?;
        let handle = object::<OpenOut>(&reply).fh;
        let (mut entries, mut offset) = (Vec::new(), 0);
        loop {
            let read = ReadIn { fh: handle, offset, size: 64 << 10, ..ReadIn::default() };
            let batch = self.ask(Opcode::Readdirplus, node, &[read.as_slice()])?;
            if batch.is_empty() {
                break;
            }
            let mut at = 0;
            while at < batch.len() {
                let entry: EntryOut = object(&batch[at..]);
                let dirent = &batch[at + size_of::<EntryOut>()..];
                offset = u64::from_ne_bytes(dirent[8..16].try_into().unwrap());
                let length = u32::from_ne_bytes(dirent[16..20].try_into().unwrap()) as usize;
                let name = String::from_utf8(dirent[24..24 + length].to_vec()).unwrap();
                if name != "." && name != ".." {
                    entries.push((name, entry.nodeid));
                }
                at += size_of::<EntryOut>() + (24 + length).next_multiple_of(8);
            }
        }
        let release = ReleaseIn { fh: handle, ..ReleaseIn::default() };
        self.ask(Opcode::Releasedir, node, &[release.as_slice()])?;
        Ok(entries)
    }

    /// Every other request that an ordinary guest sends, in an order that works.
    pub fn exercise(&mut self) {
        let name = |name: &str| [name.as_bytes(), b"\0"].concat();
        let folder = self.mkdir(ROOT, "exercise").unwrap().nodeid;
        let (file, handle) = self.create(folder, "a", 0o644).unwrap();
        let file = file.nodeid;
        self.write(file, handle, b"hello").unwrap();
        let mknod = MknodIn { mode: 0o010_600, ..MknodIn::default() };
        self.ask(Opcode::Mknod, folder, &[mknod.as_slice(), &name("pipe")]).unwrap();
        let link = self.ask(Opcode::Symlink, folder, &[&name("link"), &name("/etc/passwd")]).unwrap();
        let link = object::<EntryOut>(&link).nodeid;
        assert_eq!(self.ask(Opcode::Readlink, link, &[]).unwrap(), b"/etc/passwd");
        let linked = LinkIn { oldnodeid: file };
        self.ask(Opcode::Link, folder, &[linked.as_slice(), &name("b")]).unwrap();
        let rename = Rename2In { newdir: folder, flags: 0, padding: 0 };
        self.ask(Opcode::Rename2, folder, &[rename.as_slice(), &name("b"), &name("c")]).unwrap();
        let times = SetattrIn {
            valid: 0x1 | 0x8 | 0x10 | 0x20,
            mode: 0o600,
            size: 3,
            mtime: 9,
            atime: 9,
            ..SetattrIn::default()
        };
        self.set(file, times).unwrap();
        let allocate = FallocateIn { fh: handle, length: 8192, ..FallocateIn::default() };
        self.ask(Opcode::Fallocate, file, &[allocate.as_slice()]).unwrap();
        let flush = FlushIn { fh: handle, ..FlushIn::default() };
        self.ask(Opcode::Flush, file, &[flush.as_slice()]).unwrap();
        let sync = FsyncIn { fh: handle, ..FsyncIn::default() };
        self.ask(Opcode::Fsync, file, &[sync.as_slice()]).unwrap();
        // handle, offset, whence: the data begins where the file does.
        let seek =
            [handle.to_ne_bytes().as_slice(), &0_u64.to_ne_bytes(), &3_u32.to_ne_bytes(), &[0; 4]].concat();
        self.ask(Opcode::Lseek, file, &[&seek]).unwrap();
        let (copy, into) = self.create(folder, "copy", 0o644).unwrap();
        let numbers = [handle, 0, copy.nodeid, into, 0, 3, 0];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        self.ask(Opcode::CopyFileRange, file, &[&bytes]).unwrap();
        assert_eq!(self.read(copy.nodeid, into).unwrap(), b"hel");
        self.ask(Opcode::Statfs, ROOT, &[]).unwrap();
        self.ask(Opcode::Syncfs, ROOT, &[&[0; 8]]).unwrap();
        self.release(copy.nodeid, into).unwrap();
        self.release(file, handle).unwrap();
        for gone in ["a", "c", "copy", "link", "pipe"] {
            self.ask(Opcode::Unlink, folder, &[&name(gone)]).unwrap();
        }
        assert_eq!(self.list(folder).unwrap(), []);
        self.ask(Opcode::Rmdir, ROOT, &[&name("exercise")]).unwrap();
    }
}
