//! Values that are typed, each refused by name with the form that is meant.

use std::num::NonZeroU16;

use sandbox_model::PortForward;

/// How many of something; 0 is all of them.
pub fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number; write 0 for all, or one such as 20"))
}

/// Virtual processors.
pub fn processors(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number of processors from 0 (all) to 255"))
}

/// A session's number.
pub fn session(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is not the number of a session, such as 1"))
}

/// An agent's version, as npm writes it, or a tag such as `latest`.
pub fn agent_version(text: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.len() <= 64 && text.chars().all(sound) {
        return Ok(text.into());
    }
    Err(format!("`{text}` is not a version; write for example 1.2.3, or latest"))
}

/// A resolver, of which only the settings know what it may be.
pub fn resolver(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err(format!("`{text}` is not a resolver; write an address such as 1.1.1.1, or address:port"));
    }
    Ok(text.into())
}

/// A published port: its number on this machine, or as it was published.
pub fn published_port(text: &str) -> Result<String, String> {
    if text.parse::<NonZeroU16>().is_ok() || text.parse::<PortForward>().is_ok() {
        return Ok(text.into());
    }
    Err(format!(
        "`{text}` is no published port; write its number such as 8080, or HOST:GUEST such as 8080:80"
    ))
}

/// A worktree that is there: whoever made it chose its name.
pub fn worktree(text: &str) -> Result<String, String> {
    let sound = |c: char| !c.is_control() && c != '/';
    if !matches!(text, "" | "." | "..") && !text.starts_with('-') && text.chars().all(sound) {
        return Ok(text.into());
    }
    Err(format!("`{text}` is not the name of a worktree, as `worktree list` shows it: such as fix-login"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_none_is_refused_with_the_form_that_is_meant() {
        assert_eq!((count("0"), count("20")), (Ok(0), Ok(20)));
        for text in ["", "-1", "x", "1.5", "99999999999999999999999"] {
            assert!(count(text).unwrap_err().contains("such as 20"), "{text}");
        }
        assert_eq!((processors("0"), processors("255")), (Ok(0), Ok(255)));
        for text in ["", "-1", "256", "two", "1.5"] {
            assert!(processors(text).unwrap_err().contains("0 (all) to 255"), "{text}");
        }
        assert_eq!(session("7"), Ok(7));
        assert!(session("-1").unwrap_err().contains("such as 1"));
        for text in ["1.2.3", "latest", "0.0.0-beta-99", "2.0.0-rc.1+build_5"] {
            assert_eq!(agent_version(text).as_deref(), Ok(text));
        }
        for text in ["", "a b", "-1", "1;2", "../x", "1\n2", &"1".repeat(65)] {
            assert!(agent_version(text).unwrap_err().contains("1.2.3, or latest"), "{text}");
        }
        assert!(resolver("").unwrap_err().contains("1.1.1.1"));
        for text in ["1", "65535", "8080:80", "0.0.0.0:8080:80"] {
            assert_eq!(published_port(text).as_deref(), Ok(text));
        }
        for text in ["", "0", "65536", "x", "-1", "8080:"] {
            assert!(published_port(text).unwrap_err().contains("8080:80"), "{text}");
        }
        for text in ["Fix_it.2", "_fix it"] {
            assert_eq!(worktree(text).as_deref(), Ok(text));
        }
        for text in ["", "../x", "a/b", "-f", ".", "..", "a\n"] {
            assert!(worktree(text).is_err(), "{text}");
        }
    }
}
