//! Which of an agent's versions is the newest, as the npm client says it.

use std::cmp::Ordering;
use std::time::Duration;

use crate::Install;

/// An npm client that does not answer within this time is not waited for. Emulated, node alone takes seconds.
pub const NPM_DEADLINE: Duration = Duration::from_mins(1);

/// Asks npm for the newest version. Where packages are is npm's own business.
pub fn newest_argv(install: &Install) -> [String; 6] {
    let package = format!("{}@{}", install.package, install.tag);
    ["npm", "view", "--fetch-retries=0", "--fetch-timeout=20000", &package, "version"].map(String::from)
}

/// The version in npm's answer; `None` for anything that is none.
pub fn newest_of(answer: &str) -> Option<String> {
    let version = answer.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    parse(version)?;
    Some(version.to_string())
}

/// Whether `version` comes after `than`. One that is not `1.2.3`, maybe with `-beta.4`, is never newer.
pub fn is_newer(version: &str, than: &str) -> bool {
    let (Some(version), Some(than)) = (parse(version), parse(than)) else { return false };
    version.core.cmp(&than.core).then_with(|| by_stage(&version.stage, &than.stage)) == Ordering::Greater
}

/// A release comes after what led to it.
fn by_stage(one: &[Part], other: &[Part]) -> Ordering {
    match (one.is_empty(), other.is_empty()) {
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => one.cmp(other),
    }
}

struct Version {
    core: [u64; 3],
    /// After the dash. `beta-99` comes before `beta-100`: opencode2 counts its builds so.
    stage: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

fn parse(text: &str) -> Option<Version> {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    if text.len() > 64 || !text.chars().all(sound) {
        return None;
    }
    let text = text.split('+').next().unwrap_or_default();
    let (core, stage) = text.split_once('-').unwrap_or((text, ""));
    let numbers: Vec<u64> = core.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let part = |word: &str| word.parse().map_or_else(|_| Part::Word(word.into()), Part::Number);
    let stage = stage.split(['.', '-']).filter(|word| !word.is_empty()).map(part).collect();
    Some(Version { core: numbers.try_into().ok()?, stage })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_as_numbers_and_a_release_comes_after_its_betas() {
        for (newer, older) in [
            ("1.18.33", "1.18.9"),
            ("2.0.0", "1.99.99"),
            ("1.0.0", "1.0.0-rc.1"),
            ("0.0.0-beta-100", "0.0.0-beta-99"),
            ("0.0.0-beta.2", "0.0.0-alpha.3"),
            ("1.0.1+x", "1.0.0"),
        ] {
            assert!(is_newer(newer, older), "{newer} {older}");
            assert!(!is_newer(older, newer), "{older} {newer}");
        }
        assert!(!is_newer("1.2.3", "1.2.3") && !is_newer("1.2.3+b", "1.2.3+a"));
        assert!(!is_newer("next", "1.0.0") && !is_newer("2.0.0", "unknown"));
    }

    #[test]
    fn only_a_version_is_an_answer() {
        assert_eq!(newest_of("1.18.33\n").as_deref(), Some("1.18.33"));
        assert_eq!(newest_of("npm notice\n\n0.0.0-beta-7\n").as_deref(), Some("0.0.0-beta-7"));
        for answer in ["", "\n", "{\"version\": 1}", "1.0.0 \u{1b}[31m", "1.0", "v1.0.0"] {
            assert_eq!(newest_of(answer), None, "{answer:?}");
        }
    }
}
