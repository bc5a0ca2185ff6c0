//! On which device of the host a file system is.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use virtiofsd::filesystem::{FileSystem, ZeroCopyWriter};
use virtiofsd::oslib::ReadvFlags;

use super::Roots;
use crate::filesystem::pinned::nobody;
use crate::nodes::ROOT;

/// Takes the number of the device instead of the contents: the pass-through file system tells it in no other way.
struct Device(u64);

impl ZeroCopyWriter for &mut Device {
    fn read_from_file_at(
        &mut self,
        file: &File,
        _: usize,
        _: u64,
        _: Option<ReadvFlags>,
    ) -> io::Result<usize> {
        self.0 = file.metadata()?.dev();
        Ok(0)
    }
}

impl Roots {
    /// The device of the file system that has `inode` at its top; zero is that of the folder of ours.
    pub(in crate::filesystem) fn device(&self, inode: u64) -> io::Result<u64> {
        if self.is_top(inode) {
            return Ok(0);
        }
        // A single file is on the device of its folder.
        let (fs, _, number) = self.of(inode)?;
        let number = if self.shows_one_file(inode) { ROOT } else { number };
        // A path only: whether the folder may be read is the guest's to decide, and its files are the same ones then.
        let flags = (libc::O_PATH | libc::O_DIRECTORY).cast_unsigned();
        let handle = fs.open(nobody(), number, false, flags)?.0.unwrap_or_default();
        let mut device = Device(0);
        let read = fs.read(nobody(), number, handle, &mut device, 0, 0, None, 0);
        fs.release(nobody(), number, 0, handle, false, false, None)?;
        read.map(|_| device.0)
    }
}
