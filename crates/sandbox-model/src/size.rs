use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A size in bytes, written as an integer with `M` or `G` (powers of 1024); a bare integer is MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteSize(u64);

/// A text that is no size; it holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size; write an integer with M or G, such as 512M or 4G (a bare number is MiB)")]
pub struct InvalidSize(pub String);

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl ByteSize {
    /// `count` times 1024², for sizes that are written in code: too large a count overflows.
    pub const fn mib(count: u64) -> Self {
        Self(count * MIB)
    }

    /// `count` times 1024³, likewise.
    pub const fn gib(count: u64) -> Self {
        Self(count * GIB)
    }

    /// The exact count, for whoever truncates, seeks or compares.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// A size that was counted, not typed: files and disks need not be whole MiB.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Whole MiB, rounded up.
    pub const fn as_mib(self) -> u64 {
        self.0.div_ceil(MIB)
    }

    /// For people: one decimal, powers of 1024 (`1.4G`, `512M`, `3.2K`).
    pub fn human(self) -> String {
        let (unit, scale) = match self.0 {
            bytes if bytes >= GIB => ("G", GIB),
            bytes if bytes >= MIB => ("M", MIB),
            bytes if bytes >= 1024 => ("K", 1024),
            bytes => return format!("{bytes}B"),
        };
        let tenths = (u128::from(self.0) * 10 + u128::from(scale) / 2) / u128::from(scale);
        if tenths.is_multiple_of(10) {
            format!("{}{unit}", tenths / 10)
        } else {
            format!("{}.{}{unit}", tenths / 10, tenths % 10)
        }
    }
}

impl FromStr for ByteSize {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let invalid = || InvalidSize(text.into());
        let trimmed = text.trim();
        let (digits, unit) = match trimmed.as_bytes().last() {
            Some(b'g' | b'G') => (&trimmed[..trimmed.len() - 1], GIB),
            Some(b'm' | b'M') => (&trimmed[..trimmed.len() - 1], MIB),
            _ => (trimmed, MIB),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid());
        }
        let count: u64 = digits.parse().map_err(|_| invalid())?;
        let bytes =
            count.checked_mul(unit).filter(|b| *b > 0 && i64::try_from(*b).is_ok()).ok_or_else(invalid)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for ByteSize {
    /// The form that parses back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(GIB) {
            f.pad(&format!("{}G", self.0 / GIB))
        } else {
            f.pad(&format!("{}M", self.as_mib()))
        }
    }
}

/// Records store sizes in bytes, so that nothing is rounded on the way to disk and back.
impl Serialize for ByteSize {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar() {
        for (text, bytes) in
            [("4G", 4 << 30), ("4g", 4 << 30), ("512M", 512 << 20), ("512m", 512 << 20), ("1", 1 << 20)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "G", "4K", "4GB", "-1", "1.5G", "0", "0G", "99999999999G", "4 G"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn shown_for_people() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1536, "1.5K"), (512 << 20, "512M"), (1_503_238_553, "1.4G")]
        {
            assert_eq!(ByteSize(bytes).human(), text);
        }
    }
}
