//! Ethernet frames on a byte stream, as QEMU's `-netdev stream` speaks: a big-endian `u32` length and
//! that many bytes.

/// Bytes of the length before each frame.
pub(crate) const PREFIX: usize = 4;

/// The largest frame, in bytes: an Ethernet header and the largest IP packet. Only QEMU writes lengths, so a
/// larger one means that the stream is out of step, which nothing can mend.
pub(crate) const MAX_FRAME: usize = 14 + 65_535;

/// Room for one read: a few dozen full frames.
const READ: usize = 256 * 1024;

/// A length that no frame has: the stream cannot be followed any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("QEMU announced a frame of {0} bytes, more than {MAX_FRAME}")]
pub struct OversizedFrame(pub usize);

/// Cuts a stream into frames. Bytes go into [`Deframer::space`], are counted by [`Deframer::filled`], and come
/// out of [`Deframer::next`] until that has no whole frame left.
pub(crate) struct Deframer {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Deframer {
    pub fn new() -> Self {
        Self { bytes: vec![0; PREFIX + MAX_FRAME + READ], begin: 0, end: 0 }
    }

    /// Where to read to; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        // At most one unfinished frame is left, so there is always room for a whole read behind it.
        self.bytes.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        &mut self.bytes[self.end..]
    }

    /// The first `count` bytes of the space were read.
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// The next whole frame with its [`PREFIX`].
    pub fn next(&mut self) -> Result<Option<&mut [u8]>, OversizedFrame> {
        let waiting = &mut self.bytes[self.begin..self.end];
        let Some((prefix, rest)) = waiting.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > MAX_FRAME {
            return Err(OversizedFrame(length));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.begin += PREFIX + length;
        Ok(Some(&mut waiting[..PREFIX + length]))
    }
}

/// Appends a frame with its prefix. Frames that no card takes (larger than [`MAX_FRAME`]) are dropped, as a
/// cable would.
pub(crate) fn append_frame(to: &mut Vec<u8>, frame: &[u8]) {
    if let Ok(length) = u32::try_from(frame.len())
        && frame.len() <= MAX_FRAME
    {
        to.extend_from_slice(&length.to_be_bytes());
        to.extend_from_slice(frame);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feed(deframer: &mut Deframer, mut bytes: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, OversizedFrame> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let space = deframer.space();
            let count = piece.min(bytes.len()).min(space.len());
            space[..count].copy_from_slice(&bytes[..count]);
            deframer.filled(count);
            bytes = &bytes[count..];
            while let Some(frame) = deframer.next()? {
                frames.push(frame[PREFIX..].to_vec());
            }
        }
        Ok(frames)
    }

    #[test]
    fn the_largest_frame_passes_and_one_byte_more_is_an_error() {
        let largest = vec![7; MAX_FRAME];
        let mut stream = Vec::new();
        append_frame(&mut stream, &largest);
        append_frame(&mut stream, b"next");
        let frames = feed(&mut Deframer::new(), &stream, usize::MAX).unwrap();
        assert!(frames == [largest, b"next".to_vec()]);

        let more = u32::try_from(MAX_FRAME + 1).unwrap().to_be_bytes();
        assert_eq!(feed(&mut Deframer::new(), &more, 4), Err(OversizedFrame(MAX_FRAME + 1)));
        assert_eq!(feed(&mut Deframer::new(), &[0xff; 9], 1), Err(OversizedFrame(0xffff_ffff)));
        let mut none = Vec::new();
        append_frame(&mut none, &vec![0; MAX_FRAME + 1]);
        assert!(none.is_empty());
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..20),
            piece in 1_usize..5000,
        ) {
            let mut stream = Vec::new();
            for frame in &frames {
                append_frame(&mut stream, frame);
            }
            prop_assert_eq!(feed(&mut Deframer::new(), &stream, piece).unwrap(), frames);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000), piece in 1_usize..700) {
            let _ = feed(&mut Deframer::new(), &bytes, piece);
        }
    }
}
