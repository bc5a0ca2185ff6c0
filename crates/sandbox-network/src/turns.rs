//! One more turn of the engine, where a connection's first words would lie and wait for it.
//!
//! In each turn the engine takes what the guest sent, then hands what connections say to their tasks, then gives new
//! connections a task. Words that come in one turn with the end of the handshake are handed over in the next, and
//! nothing calls for one but the acknowledgement that the engine puts off: 10 ms later. So a question follows first
//! words, which the engine answers in that very turn, and its answer is the sign that a frame which is sent now is the
//! next one's. A call that followed the words at once could be taken in with them.

use msb_krun::backends::net::NetBackend;

use crate::GuestAddresses;
use crate::framing::PREFIX;

const EVERYBODY: [u8; 6] = [0xff; 6];
/// A card that nobody has.
const ASKER: [u8; 6] = [0x02, 0x6d, 0x73, 0xff, 0xff, 0x03];
/// Who has an address (RFC 826).
const ARP: [u8; 2] = [0x08, 0x06];
/// What no stack listens to: the first type that IEEE 802 leaves to experiments.
const NOTHING: [u8; 2] = [0x88, 0xb5];

/// Both frames have room for a [`PREFIX`] before them.
pub(crate) struct Turns {
    question: Vec<u8>,
    call: Vec<u8>,
    /// Whom the engine answers.
    asker: [u8; 4],
}

impl Turns {
    pub fn new(addresses: GuestAddresses) -> Self {
        let asker = addresses.nobody_ipv4().octets();
        let gateway = addresses.gateway_ipv4.octets();
        // Ethernet and IPv4, a request: who asks, and for whom.
        let head = [0_u8, 1, 0x08, 0x00, 6, 4, 0, 1];
        let question = [&head[..], &ASKER, &asker, &[0_u8; 6], &gateway].concat();
        Self { question: frame(ARP, &question), call: frame(NOTHING, &[]), asker }
    }

    /// First words were sent.
    pub fn ask(&mut self, engine: &mut (dyn NetBackend + Send)) {
        // It never refuses, it drops.
        let _ = engine.write_frame(PREFIX, &mut self.question);
    }

    /// A frame for the guest; whether it is none, but the answer that had to be awaited.
    pub fn heard(&mut self, frame: &[u8], engine: &mut (dyn NetBackend + Send)) -> bool {
        let is_answer = frame.get(12..14) == Some(&ARP[..]) && frame.get(38..42) == Some(&self.asker[..]);
        if is_answer {
            let _ = engine.write_frame(PREFIX, &mut self.call);
        }
        is_answer
    }
}

fn frame(kind: [u8; 2], content: &[u8]) -> Vec<u8> {
    [&[0_u8; PREFIX][..], &EVERYBODY, &ASKER, &kind, content].concat()
}

#[cfg(test)]
mod tests {
    use msb_krun::backends::net::{ReadError, WriteError};

    use super::*;

    /// Keeps what it is sent.
    #[derive(Default)]
    struct Engine(Vec<Vec<u8>>);

    impl NetBackend for Engine {
        fn write_frame(&mut self, header: usize, frame: &mut [u8]) -> Result<(), WriteError> {
            self.0.push(frame[header..].to_vec());
            Ok(())
        }

        fn read_frame(&mut self, _: &mut [u8]) -> Result<usize, ReadError> {
            Err(ReadError::NothingRead)
        }

        fn has_unfinished_write(&self) -> bool {
            false
        }

        fn try_finish_write(&mut self, _: usize, _: &[u8]) -> Result<(), WriteError> {
            Ok(())
        }

        fn raw_socket_fd(&self) -> i32 {
            -1
        }
    }

    #[test]
    fn the_answer_alone_calls_and_is_not_the_guests() {
        let (mut turns, mut engine) = (Turns::new(GuestAddresses::of(7)), Engine::default());
        turns.ask(&mut engine);
        let question = engine.0.pop().unwrap();
        assert_eq!((question.len(), &question[12..14]), (42, &ARP[..]));
        assert_eq!((&question[28..32], &question[38..42]), (&[172, 16, 0, 28][..], &[172, 16, 0, 29][..]));
        // Who has it says so to whoever asked.
        let answer = |asker: &[u8]| {
            let mut answer = question.clone();
            answer[21] = 2;
            answer[28..32].copy_from_slice(&question[38..42]);
            answer[38..42].copy_from_slice(asker);
            answer
        };
        assert!(!turns.heard(&answer(&[172, 16, 0, 30]), &mut engine), "the guest asked");
        assert!(!turns.heard(&[], &mut engine) && engine.0.is_empty());
        assert!(turns.heard(&answer(&[172, 16, 0, 28]), &mut engine));
        assert_eq!(engine.0.pop().map(|call| call[12..].to_vec()), Some(NOTHING.to_vec()));
    }
}
