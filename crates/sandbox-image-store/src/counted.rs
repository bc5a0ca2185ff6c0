use std::io::Read;

use sandbox_runtime::Progress;

/// Counts what passes through, for progress.
#[expect(missing_debug_implementations, reason = "neither a reader nor a callback has anything to show")]
pub struct Counted<'a, 'b> {
    inner: &'a mut dyn Read,
    done: u64,
    progress: Progress<'b>,
}

impl<'a, 'b> Counted<'a, 'b> {
    /// `progress` is told after every read, in bytes so far; how many there will be is never known.
    pub fn new(inner: &'a mut dyn Read, progress: Progress<'b>) -> Self {
        Self { inner, done: 0, progress }
    }
}

impl Read for Counted<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done += count as u64;
        (self.progress)(self.done, None);
        Ok(count)
    }
}
