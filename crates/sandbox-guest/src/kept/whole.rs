/// What may be held back for the end of a sequence: longer ones (pictures, the clipboard) pass in pieces.
const HELD: usize = 16 * 1024;

/// How many bytes of `output` end with a whole character and a whole control sequence, so that something else
/// may follow them. What is left belongs before the next output.
pub fn whole(output: &[u8]) -> usize {
    let mut end = output.len();
    while let Some(start) = output[..end].iter().rposition(|byte| *byte == ESC) {
        if output.len() - start > HELD {
            return output.len();
        }
        if is_complete(&output[start..end]) {
            break;
        }
        end = start;
    }
    if end < output.len() { end } else { end - open_character(output) }
}

/// What the screen follows at once. The worst of it takes a few milliseconds.
const PIECE: usize = 256;

/// How many bytes of `output` to follow next: a few, and no broken sequence where that can be.
pub fn piece(output: &[u8]) -> usize {
    let mut length = PIECE;
    while length < output.len() {
        match whole(&output[..length]) {
            0 => length *= 2,
            end => return end,
        }
    }
    output.len()
}

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// Whether a control sequence that begins with `text`, which holds no other, is at its end within it.
fn is_complete(text: &[u8]) -> bool {
    let rest = text.get(2..).unwrap_or_default();
    match text.get(1) {
        None => false,
        Some(b'[') => rest.iter().any(|byte| (0x40..=0x7e).contains(byte)),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => rest.contains(&BEL),
        Some(0x20..=0x2f) => rest.iter().any(|byte| (0x30..=0x7e).contains(byte)),
        Some(_) => true,
    }
}

/// Bytes at the end that begin a character of UTF-8 and do not end it.
fn open_character(output: &[u8]) -> usize {
    let tail = &output[output.len().saturating_sub(3)..];
    let Some(lead) = tail.iter().rposition(|byte| *byte >= 0xc0) else { return 0 };
    let (length, there) = (tail[lead].leading_ones() as usize, tail.len() - lead);
    let continues = tail[lead + 1..].iter().all(|byte| byte & 0xc0 == 0x80);
    if continues && there < length { there } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cut_in_the_middle() {
        let pieces: [&[u8]; 9] = [
            b"text",
            b"\x1b[31;1m",
            "\u{4f60}".as_bytes(),
            b"\x1b]2;a title\x07",
            b"\x1b]52;c;AAAA\x1b\\",
            b"\x1b(B",
            b"\x1bP+q544e\x1b\\",
            "\u{1f600}".as_bytes(),
            b"\x1b7",
        ];
        let all = pieces.concat();
        let mut ends: Vec<usize> = (0..=4).collect();
        for piece in &pieces[1..] {
            ends.push(ends[ends.len() - 1] + piece.len());
        }
        for cut in 0..=all.len() {
            let got = whole(&all[..cut]);
            let wanted = ends.iter().rev().find(|end| **end <= cut).copied().unwrap();
            assert_eq!(got, wanted, "of {:?}", String::from_utf8_lossy(&all[..cut]));
        }
    }

    #[test]
    fn pieces_are_short_and_whole() {
        let output = "\x1b[31m\u{4f60}\x1b[m".repeat(1000).into_bytes();
        let mut rest = &output[..];
        while !rest.is_empty() {
            let (next, after) = rest.split_at(piece(rest));
            assert!((1..=PIECE).contains(&next.len()) && whole(next) == next.len(), "{next:?}");
            rest = after;
        }
        let long = [b"\x1b]52;c;".as_slice(), &[b'A'; 1000], b"\x07text"].concat();
        assert_eq!(piece(&long), long.len());
    }

    #[test]
    fn what_is_no_text_passes() {
        assert_eq!(whole(b"\xff\xfe\x80\x80\x80\x80"), 6);
        assert_eq!(whole(b"\xc3("), 2);
        let long = [b"\x1b]52;c;".as_slice(), &[b'A'; HELD]].concat();
        assert_eq!(whole(&long), long.len());
    }
}
