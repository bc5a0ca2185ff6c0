use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Moments as records and tables write them.
#[derive(Debug, Clone, Copy)]
pub struct Stamp;

impl Stamp {
    /// Seconds since 1970, now.
    pub fn now() -> i64 {
        Timestamp::now().as_second()
    }

    /// UTC `YYYYMMDDTHHMMSS`, as in volume names.
    pub fn for_name(seconds: i64) -> String {
        Self::format(seconds, "%Y%m%dT%H%M%S", TimeZone::UTC)
    }

    /// Takes a moment back from a name; `None` for anything else.
    pub fn from_name(text: &str) -> Option<i64> {
        let moment = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", text).ok()?;
        let seconds = TimeZone::UTC.to_timestamp(moment).ok()?.as_second();
        // Only what `for_name` writes: the parser takes shorter forms too.
        (Self::for_name(seconds) == text).then_some(seconds)
    }

    /// `YYYY-MM-DD HH:MM:SS` in the local time zone, as in tables.
    pub fn for_table(seconds: i64) -> String {
        Self::format(seconds, "%Y-%m-%d %H:%M:%S", TimeZone::system())
    }

    /// RFC 3339 in UTC, as in JSON.
    pub fn for_json(seconds: i64) -> String {
        Timestamp::from_second(seconds).map(|moment| moment.to_string()).unwrap_or_default()
    }

    fn format(seconds: i64, format: &str, zone: TimeZone) -> String {
        Timestamp::from_second(seconds)
            .map(|t| t.to_zoned_datetime(zone).strftime(format).to_string())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_use_utc() {
        assert_eq!(Stamp::for_name(1_795_971_474), "20261129T165754");
        assert_eq!(Stamp::from_name("20261129T165754"), Some(1_795_971_474));
        for text in ["", "20261129", "20261129T16575", "20261329T165754", "x0261129T165754"] {
            assert_eq!(Stamp::from_name(text), None, "{text}");
        }
        assert_eq!(Stamp::for_json(1_795_971_474), "2026-11-29T16:57:54Z");
    }
}
