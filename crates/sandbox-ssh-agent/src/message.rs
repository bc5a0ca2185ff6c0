use std::io::{ErrorKind, Read};

/// The largest message either side may send, in bytes: as OpenSSH's own agent.
pub const MAX_MESSAGE: usize = 256 * 1024;

/// `SSH_AGENT_FAILURE`. The numbers are those of draft-miller-ssh-agent.
pub const FAILURE: u8 = 5;
/// `SSH_AGENTC_REQUEST_IDENTITIES`, which has no fields.
pub const REQUEST_IDENTITIES: u8 = 11;
/// `SSH_AGENT_IDENTITIES_ANSWER`: a count, then a key and its comment for each.
pub const IDENTITIES_ANSWER: u8 = 12;
/// `SSH_AGENTC_SIGN_REQUEST`: the key, the data, and flags.
pub const SIGN_REQUEST: u8 = 13;
/// `SSH_AGENT_SIGN_RESPONSE`: the signature.
pub const SIGN_RESPONSE: u8 = 14;

/// A message that is none of the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a malformed message")]
pub struct Malformed;

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Which keys there are.
    Identities,
    /// A signature.
    Sign {
        /// The public key, as [`crate::Identity`] has it.
        key: &'a [u8],
        /// What is to be signed, in the clear: [`crate::Purpose`] reads it.
        data: &'a [u8],
    },
    /// Nothing for a guest; what it would be, in words.
    Other(&'static str),
}

impl<'a> Request<'a> {
    /// `body` is a message without its length.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let (kind, fields) = body.split_first().ok_or(Malformed)?;
        match *kind {
            REQUEST_IDENTITIES if fields.is_empty() => Ok(Self::Identities),
            SIGN_REQUEST => {
                let mut fields = Fields(fields);
                let (key, data) = (fields.string()?, fields.string()?);
                let _flags = fields.number()?;
                if fields.0.is_empty() { Ok(Self::Sign { key, data }) } else { Err(Malformed) }
            }
            REQUEST_IDENTITIES => Err(Malformed),
            17 | 20 | 25 | 26 => Ok(Self::Other("add a key")),
            18 | 19 | 21 => Ok(Self::Other("remove keys")),
            22 => Ok(Self::Other("lock the agent")),
            23 => Ok(Self::Other("unlock the agent")),
            27 => Ok(Self::Other("use an extension")),
            _ => Ok(Self::Other("something unknown")),
        }
    }
}

/// Fields of a message, one after the other.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `uint32`, in big-endian bytes (RFC 4251, section 5).
    pub fn number(&mut self) -> Result<u32, Malformed> {
        let (number, rest) = self.0.split_first_chunk::<4>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*number))
    }

    /// The next `string`: a `uint32` of its length, then its bytes. One that is longer than the message is an
    /// error.
    pub fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()? as usize;
        let (string, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(string)
    }
}

/// The body of the next message; `None` where the other side is done.
pub fn read(from: &mut (impl Read + ?Sized)) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    // An end before the first byte is a normal one.
    if from.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..])?;
    let length = u32::from_be_bytes(length) as usize;
    if length == 0 || length > MAX_MESSAGE {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(body))
}

/// A message with its length.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(4 + body.len());
    put_string(&mut message, body);
    message
}

/// The other way round: `string` behind its length. Ours are far shorter than a `uint32` counts.
pub fn put_string(to: &mut Vec<u8>, string: &[u8]) {
    to.extend(u32::try_from(string.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend(string);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sign(key: &[u8], data: &[u8]) -> Vec<u8> {
        let mut body = vec![SIGN_REQUEST];
        put_string(&mut body, key);
        put_string(&mut body, data);
        body.extend([0; 4]);
        body
    }

    #[test]
    fn two_requests_pass_and_every_other_number_does_not() {
        assert_eq!(Request::parse(&[REQUEST_IDENTITIES]), Ok(Request::Identities));
        let message = sign(b"key", b"data");
        assert_eq!(Request::parse(&message), Ok(Request::Sign { key: b"key", data: b"data" }));
        for kind in (0..=u8::MAX).filter(|kind| ![REQUEST_IDENTITIES, SIGN_REQUEST].contains(kind)) {
            assert!(matches!(Request::parse(&[kind, 1, 2, 3]), Ok(Request::Other(_))), "{kind}");
        }
    }

    #[test]
    fn what_is_cut_or_goes_on_is_malformed() {
        let message = sign(b"key", b"data");
        for length in 0..message.len() {
            assert_eq!(Request::parse(&message[..length]), Err(Malformed), "{length}");
        }
        assert_eq!(Request::parse(&[message, vec![0]].concat()), Err(Malformed));
        assert_eq!(Request::parse(&[REQUEST_IDENTITIES, 0]), Err(Malformed));
    }

    #[test]
    fn a_length_beyond_the_limit_takes_no_memory() {
        for bytes in [[0xff; 4], [0, 0, 0, 0], [0, 4, 0, 1]] {
            assert_eq!(read(&mut &bytes[..]).unwrap_err().kind(), ErrorKind::InvalidData);
        }
        assert_eq!(read(&mut &[][..]).unwrap(), None);
        assert_eq!(read(&mut &framed(b"abc")[..]).unwrap().unwrap(), b"abc");
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::parse(&bytes);
            let _ = read(&mut &bytes[..]);
        }
    }
}
