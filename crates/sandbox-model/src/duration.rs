use std::time::Duration;

/// A text that is no duration; it holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write for example 10s, 90m, 24h, 7d, 2w or 1h30m")]
pub struct InvalidDuration(pub String);

/// Parses `10s`, `1h30m`, `1.5h`, `250ms`, `7d`, `2w`.
///
/// The units are those of Go's durations (`ns us µs ms s m h`) plus whole days and weeks, which stand
/// alone (`7d`, not `1d12h`). A number without a unit is refused, zero (`0`, `0s`) is accepted.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration(text.into());
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    for (unit, seconds) in [('d', 86_400_u64), ('w', 604_800)] {
        if let Some(count) = trimmed.strip_suffix(unit) {
            if count.is_empty() || !count.bytes().all(|b| b.is_ascii_digit()) {
                return Err(invalid());
            }
            let count: u64 = count.parse().map_err(|_| invalid())?;
            return count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(invalid);
        }
    }
    let mut rest = trimmed;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let units: [(&str, f64); 8] = [
            ("ns", 1e-9),
            ("us", 1e-6),
            ("µs", 1e-6),
            ("μs", 1e-6),
            ("ms", 1e-3),
            ("s", 1.0),
            ("m", 60.0),
            ("h", 3600.0),
        ];
        let (unit, scale) = units.into_iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(invalid)?;
        let part = Duration::try_from_secs_f64(number * scale).map_err(|_| invalid())?;
        total = total.checked_add(part).ok_or_else(invalid)?;
        rest = &tail[unit.len()..];
    }
    Ok(total)
}

/// The shortest form that [`parse_duration`] reads back: `10s`, `1h30m`, `7d`, `250ms`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() != 0 {
        if duration.as_millis() > 0 && duration.subsec_nanos().is_multiple_of(1_000_000) {
            return format!("{}ms", duration.as_millis());
        }
        return format!("{}ns", duration.as_nanos());
    }
    if seconds == 0 {
        return "0s".into();
    }
    if seconds.is_multiple_of(86_400) {
        return format!("{}d", seconds / 86_400);
    }
    let parts = [(seconds / 3600, "h"), (seconds % 3600 / 60, "m"), (seconds % 60, "s")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, unit)| count.to_string() + unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_documented_forms() {
        for (text, seconds) in [
            ("10s", 10.0),
            ("2h", 7200.0),
            ("1h30m", 5400.0),
            ("7d", 604_800.0),
            ("2w", 1_209_600.0),
            ("250ms", 0.25),
            ("1.5h", 5400.0),
            ("0", 0.0),
        ] {
            assert_eq!(parse_duration(text).map(|d| d.as_secs_f64()), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in
            ["", "10", "d", "-1d", "1.5d", "1d12h", "ten", "10x", "1e400h", "99999999999999999999d", "s"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn formats_what_it_parses() {
        for text in ["10s", "1h30m", "7d", "250ms", "0s", "5h", "90061s"] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration), "{text}");
        }
    }
}
