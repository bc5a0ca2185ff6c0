//! Layers as the ingesting library takes them.
//!
//! Rootless engines on overlay file systems write their own bookkeeping into a layer as extended attributes
//! (`user.overlay.*`), some with an empty value, which the library refuses as a malformed header. They mean
//! nothing outside that engine's storage, so they are left out. Everything else passes byte for byte.
//!
//! Format: POSIX.1-2001 pax, "pax Extended Header": records of `LENGTH KEY=VALUE\n`.

use std::io::{Read, Write};

use tar::{Archive, Builder, EntryType};

/// A header of this size has no sense, and would only take memory.
const MAX_HEADER: u64 = 1 << 20;

/// Copies the layer, without what its engine keeps for itself.
pub fn copy_plain(layer: impl Read, to: impl Write) -> std::io::Result<()> {
    let mut archive = Archive::new(layer);
    let mut plain = Builder::new(to);
    // Raw: each header, extended ones too, is an entry of its own and keeps its bytes.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let mut header = entry.header().clone();
        if header.entry_type() == EntryType::XHeader {
            if entry.size() > MAX_HEADER {
                return Err(std::io::Error::other("an extended header of more than a megabyte"));
            }
            let mut records = Vec::new();
            entry.read_to_end(&mut records)?;
            let kept = keep(&records)?;
            header.set_size(kept.len() as u64);
            header.set_cksum();
            plain.append(&header, kept.as_slice())?;
        } else {
            plain.append(&header, &mut entry)?;
        }
    }
    plain.into_inner()?.flush()
}

/// The records that say something about the file itself.
fn keep(records: &[u8]) -> std::io::Result<Vec<u8>> {
    let malformed = || std::io::Error::other("an extended header that is not one");
    let mut kept = Vec::with_capacity(records.len());
    let mut rest = records;
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(malformed)?;
        let length: usize = std::str::from_utf8(&rest[..space])
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(malformed)?;
        if length <= space + 1 || length > rest.len() {
            return Err(malformed());
        }
        let (record, tail) = rest.split_at(length);
        let pair = record[space + 1..].strip_suffix(b"\n").ok_or_else(malformed)?;
        let equals = pair.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
        let (key, value) = (&pair[..equals], &pair[equals + 1..]);
        let engines = [
            &b"SCHILY.xattr.user.overlay."[..],
            b"SCHILY.xattr.trusted.overlay.",
            b"SCHILY.xattr.user.containers.",
        ];
        if !value.is_empty() && !engines.iter().any(|prefix| key.starts_with(prefix)) {
            kept.extend_from_slice(record);
        }
        rest = tail;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(records: &[u8], name: &str) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let mut extended = tar::Header::new_ustar();
        extended.set_entry_type(EntryType::XHeader);
        extended.set_size(records.len() as u64);
        extended.set_path("PaxHeaders/x").unwrap();
        extended.set_cksum();
        builder.append(&extended, records).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(5);
        header.set_mode(0o4755);
        header.set_path(name).unwrap();
        header.set_cksum();
        builder.append(&header, &b"hello"[..]).unwrap();
        builder.into_inner().unwrap()
    }

    fn records(pairs: &[(&str, &str)]) -> Vec<u8> {
        let record = |(key, value): &(&str, &str)| {
            let body = key.len() + value.len() + 3;
            let length =
                (body + 1..body + 9).find(|length| length.to_string().len() + body == *length).unwrap();
            format!("{length} {key}={value}\n")
        };
        pairs.iter().map(record).collect::<String>().into_bytes()
    }

    #[test]
    fn an_engines_bookkeeping_is_left_out_and_the_rest_stays() {
        let own = [("path", "a/long name"), ("SCHILY.xattr.security.capability", "\u{1}x")];
        let all = [
            own[0],
            ("SCHILY.xattr.user.overlay.metacopy", ""),
            own[1],
            ("SCHILY.xattr.user.overlay.redirect", "/x"),
        ];
        let mut plain = Vec::new();
        copy_plain(layer(&records(&all), "a").as_slice(), &mut plain).unwrap();
        let mut expected = Vec::new();
        copy_plain(layer(&records(&own), "a").as_slice(), &mut expected).unwrap();
        assert_eq!(plain, expected);
        let mut archive = Archive::new(plain.as_slice());
        let mut entry = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(entry.path().unwrap().to_str(), Some("a/long name"));
        assert_eq!(entry.header().mode().unwrap(), 0o4755);
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn a_layer_without_extended_headers_passes_byte_for_byte() {
        let mut builder = Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        builder.append_data(&mut header, "x/".repeat(100) + "name", &b"hello"[..]).unwrap();
        let layer = builder.into_inner().unwrap();
        let mut plain = Vec::new();
        copy_plain(layer.as_slice(), &mut plain).unwrap();
        assert_eq!(plain, layer);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for records in [&b"5 a=b"[..], b"99 a=b\n", b"x a=b\n", b"7 ab\n..", b"0 \n"] {
            assert!(copy_plain(layer(records, "a").as_slice(), Vec::new()).is_err(), "{records:?}");
        }
    }
}
