//! How a text is written in addresses and in JSON.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands for itself in a query (RFC 3986, 2.3).
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) fn in_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// Without the quotes around it.
pub(super) fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_string()
}

/// As some writers have it: what is no ASCII, and what means something in HTML, by its number (RFC 8259, 7).
pub(super) fn in_json_by_numbers(text: &str, is_numbered: impl Fn(char) -> bool) -> String {
    let spelt = |letter: char| {
        if !is_numbered(letter) {
            return letter.to_string();
        }
        let units: Vec<String> =
            letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
        units.concat()
    };
    in_json(text).chars().map(spelt).collect()
}
