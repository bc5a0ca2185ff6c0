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
