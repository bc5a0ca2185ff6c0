use std::ops::Range;

/// The places of keys and values in a JSON5 text, in its order. Only the parser judges the text: what the
/// scanner says of a text that does not parse is of no use, except that it is never shallower than the
/// part which does.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Every string, number, word, and every opening brace and bracket.
    pub spans: Vec<Range<usize>>,
    /// Where each nesting level was first reached.
    depths: Vec<usize>,
}

impl Tokens {
    /// Where the text is first nested deeper than `limit`.
    pub fn deeper_than(&self, limit: usize) -> Option<usize> {
        self.depths.get(limit).copied()
    }
}

/// Never fails; [`Tokens`] says what it is worth where the text does not parse.
pub fn scan(text: &str) -> Tokens {
    let bytes = text.as_bytes();
    let mut tokens = Tokens::default();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        match byte {
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = line_end(text, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at = text[at + 2..].find("*/").map_or(text.len(), |end| at + 2 + end + 2);
            }
            b'{' | b'[' => {
                at += 1;
                tokens.spans.push(start..at);
                if depth == tokens.depths.len() {
                    tokens.depths.push(start);
                }
                depth += 1;
            }
            b'}' | b']' => {
                at += 1;
                depth = depth.saturating_sub(1);
            }
            b'"' | b'\'' => {
                at = string_end(bytes, at);
                tokens.spans.push(start..at);
            }
            b',' | b':' => at += 1,
            _ => match word_end(text, at) {
                end if end > at => {
                    at = end;
                    tokens.spans.push(start..at);
                }
                end => at = end + text[end..].chars().next().map_or(1, char::len_utf8),
            },
        }
    }
    tokens
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find(['\n', '\r', '\u{2028}', '\u{2029}']).map_or(text.len(), |end| at + end)
}

/// Past the closing quote.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if byte == bytes[start] => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn word_end(text: &str, at: usize) -> usize {
    let ends = |c: char| c.is_whitespace() || c == '\u{feff}' || "{}[],:/\"'".contains(c);
    text[at..].find(ends).map_or(text.len(), |end| at + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        scan(text).spans.into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn keys_and_values_in_order() {
        let text = "// {c}\n{a: 'x\\'{', /* [ */ \"b\\\\\": [1,+.5e3,], ünï: null}";
        assert_eq!(words(text), ["{", "a", "'x\\'{'", "\"b\\\\\"", "[", "1", "+.5e3", "ünï", "null"]);
    }

    #[test]
    fn depth_is_where_it_is_first_reached() {
        let text = "[[],[{}]]";
        let tokens = scan(text);
        assert_eq!(
            (tokens.deeper_than(0), tokens.deeper_than(2), tokens.deeper_than(3)),
            (Some(0), Some(5), None)
        );
    }

    #[test]
    fn broken_texts_end() {
        for text in ["\"", "'\\", "/*", "/", "//", "\u{feff}", "]]", "{\"a\\"] {
            scan(text);
        }
    }
}
