/// Whether input is a terminal's own answer or report (its attributes, where the cursor is, a colour, the
/// focus), and not something typed. With several terminals on one program each of them answers.
pub fn is_report(input: &[u8]) -> bool {
    match input {
        [0x1b, b']' | b'P', ..] | [0x1b, b'[', b'I' | b'O'] => true,
        [0x1b, b'[', rest @ .., last] => {
            let numbers = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b'$'));
            match rest {
                [b'?' | b'>', rest @ ..] => numbers(rest) && matches!(last, b'c' | b'n' | b'u' | b'y' | b'R'),
                // The position of a cursor; `1;2R` and its like are F3 with a modifier.
                rest => {
                    numbers(rest)
                        && (matches!(last, b'n' | b't') || (*last == b'R' && !rest.starts_with(b"1;")))
                }
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_no_reports() {
        for keys in [
            "a",
            "\x1b",
            "\x1b[A",
            "\x1b[1;2R",
            "\x1b[15~",
            "\x1b[97;5u",
            "\x1b[<0;3;4M",
            "\x1bOP",
            "\x1b[200~x",
        ] {
            assert!(!is_report(keys.as_bytes()), "{keys:?}");
        }
        for report in [
            "\x1b[?62;22c",
            "\x1b[>1;10;0c",
            "\x1b[24;1R",
            "\x1b[?1u",
            "\x1b[?2026;2$y",
            "\x1b]11;rgb:0/0/0\x07",
            "\x1b[I",
            "\x1bP1+r\x1b\\",
        ] {
            assert!(is_report(report.as_bytes()), "{report:?}");
        }
    }
}
