/// Digits of a number that are taken. No terminal has ten thousand of anything, but a program may ask for the
/// last character that often, eight bytes at a time.
const DIGITS: u8 = 4;
const ESC: u8 = 0x1b;
/// Both end a sequence before its end.
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;

/// Where in a control sequence the output is.
#[derive(Debug, Default)]
pub struct Numbers {
    place: Place,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    #[default]
    Text,
    Escape,
    /// After so many digits of a number.
    Control(u8),
}

impl Numbers {
    /// The same output without absurd numbers in control sequences, which may be split anywhere between two
    /// calls.
    pub fn bounded(&mut self, output: &[u8]) -> Vec<u8> {
        output.iter().copied().filter(|byte| self.takes(*byte)).collect()
    }

    fn takes(&mut self, byte: u8) -> bool {
        self.place = match (self.place, byte) {
            (_, ESC) => Place::Escape,
            (Place::Escape, b'[') | (Place::Control(_), b';' | b':') => Place::Control(0),
            (Place::Control(DIGITS), b'0'..=b'9') => return false,
            (Place::Control(digits), b'0'..=b'9') => Place::Control(digits + 1),
            (Place::Control(_), CANCEL | SUBSTITUTE | 0x40..=0x7e) | (Place::Text | Place::Escape, _) => {
                Place::Text
            }
            (Place::Control(digits), _) => Place::Control(digits),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bounded_and_nothing_else_changes() {
        let output =
            b"123456\x1b[65535b 99999\x1b[1049;123456:7h\x1b[12\n3456m\x1b]2;99999\x07\x1b[99999\x1899999";
        let wanted = b"123456\x1b[6553b 99999\x1b[1049;1234:7h\x1b[12\n34m\x1b]2;99999\x07\x1b[9999\x1899999";
        assert_eq!(Numbers::default().bounded(output), wanted);
        let mut by_byte = Numbers::default();
        let pieces: Vec<u8> = output.iter().flat_map(|byte| by_byte.bounded(&[*byte])).collect();
        assert_eq!(pieces, wanted);
    }
}
