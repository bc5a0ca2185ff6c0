//! What a value may look like in an answer, and what the guest sees in its place.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::forms::{in_json, in_json_by_numbers, in_query};

/// A shorter value is a word that many an answer has by chance; it is not looked for.
const TELLING: usize = 8;
const MASK: u8 = b'*';

/// Every form of a value, each with as many stars: lengths that were announced stay right.
pub(super) fn masks<'a>(values: impl Iterator<Item = &'a str>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut forms: Vec<Vec<u8>> = values.filter(|value| value.len() >= TELLING).flat_map(forms).collect();
    forms.sort();
    forms.dedup();
    forms.into_iter().map(|form| (vec![MASK; form.len()], form)).map(|(mask, form)| (form, mask)).collect()
}

fn forms(value: &str) -> Vec<Vec<u8>> {
    let mut forms =
        vec![value.as_bytes().to_vec(), in_query(value).into_bytes(), in_json(value).into_bytes()];
    forms.push(in_json(value).replace('/', "\\/").into_bytes());
    forms.push(lower_hex(&in_query(value)).into_bytes());
    forms.push(in_json_by_numbers(value, |letter| matches!(letter, '&' | '<' | '>')).into_bytes());
    forms.push(in_json_by_numbers(value, |letter| !letter.is_ascii()).into_bytes());
    for offset in 0..3 {
        forms.push(in_base64(&STANDARD, value.as_bytes(), offset));
        forms.push(in_base64(&URL_SAFE, value.as_bytes(), offset));
    }
    forms.push(hex::encode(value).into_bytes());
    forms.push(hex::encode_upper(value).into_bytes());
    forms.retain(|form| form.len() >= TELLING);
    forms
}

/// The other spelling of what is escaped by percent signs.
fn lower_hex(text: &str) -> String {
    let mut digits = 0;
    let lower = |letter: char| {
        let is_digit = digits > 0;
        digits = if letter == '%' { 2 } else { i32::max(digits - 1, 0) };
        if is_digit { letter.to_ascii_lowercase() } else { letter }
    };
    text.chars().map(lower).collect()
}

/// What of the value's text in base64 is the same whatever stands around it, where it begins `offset` bytes after a
/// group of three (RFC 4648, 4).
fn in_base64(engine: &impl Engine, value: &[u8], offset: usize) -> Vec<u8> {
    let text = engine.encode([&[0; 2][..offset], value].concat()).into_bytes();
    let from = (offset * 8).div_ceil(6);
    let to = (offset + value.len()) * 8 / 6;
    text[from..to].to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::rewrite::Words;
    use super::*;

    #[test]
    fn a_value_is_seen_in_none_of_its_forms() {
        let value = "sk-\"real\"/value&0123456789";
        let words = Words::new(masks([value, "short"].into_iter())).unwrap();
        assert!(words.keeps_length());
        let json = serde_json::to_string(&["key", value]).unwrap();
        let texts = [
            format!("key={value};"),
            format!("?key={}&x", in_query(value)),
            format!("?key={}&x", lower_hex(&in_query(value))),
            in_json_by_numbers(value, |letter| "&<>".contains(letter)),
            json.clone(),
            json.replace('/', "\\/"),
            format!("0x{}", hex::encode(value).to_uppercase()),
            format!("0x{}", hex::encode(value)),
        ];
        for text in &texts {
            let masked = String::from_utf8(words.replaced(text.as_bytes()).unwrap()).unwrap();
            assert_eq!(masked.len(), text.len());
            assert!(!masked.contains("real") && !masked.contains("0123456789"), "{masked}");
        }
        for before in ["", "u", "u:", "us:", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                let text = STANDARD.encode(format!("{before}{value}{after}"));
                let masked = words.replaced(text.as_bytes()).unwrap();
                // What the neighbours share is all that is left.
                let left = masked.iter().filter(|byte| **byte != MASK).count();
                assert!(
                    left <= (before.len() + after.len() + 4) * 4 / 3 + 4,
                    "{}",
                    String::from_utf8_lossy(&masked)
                );
            }
        }
        assert_eq!(words.replaced(b"a short text"), None, "a word that many an answer has");
    }
}
