use std::fmt;
use std::path::Path;
use std::str::FromStr;

use num_bigint::BigUint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::InvalidName;

/// `<folder>-<hash of the git common directory>`: one checkout with the worktrees inside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckoutSlug(String);

/// `<folder>-<hash of the origin URL>`: every clone of one remote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RepoSlug(String);

impl CheckoutSlug {
    /// `folder` is the origin's repository name or the checkout's own; `common_dir` is resolved and absolute.
    pub fn new(folder: &str, common_dir: &Path) -> Self {
        Self(format!("{}-{}", folder_part(folder), hash_part(common_dir.as_os_str().as_encoded_bytes())))
    }

    /// Lower-case letters, digits and dashes: safe as a folder's name and in a label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CheckoutSlug {
    type Err = InvalidName;

    /// Takes a slug back from a label or a folder's name.
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let rule = "it must have lower-case letters, digits and dashes, and start with a letter or digit";
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let good = text.len() <= 64
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|b| plain(b) || b == b'-');
        if good {
            Ok(Self(text.into()))
        } else {
            Err(InvalidName { what: "checkout", name: text.into(), rule })
        }
    }
}

impl RepoSlug {
    /// `source` is the raw origin URL, or the checkout's resolved root where there is no origin.
    pub fn new(folder: &str, source: &[u8]) -> Self {
        Self(format!("{}-{}", folder_part(folder), hash_part(source)))
    }

    /// Lower-case letters, digits and dashes: safe as a folder's name and in a label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CheckoutSlug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for RepoSlug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The readable part of a slug: lower-case letters and digits joined by single dashes, at most 20
/// characters; `project` when nothing is left.
pub fn folder_part(name: &str) -> String {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit())
        .filter(|w| !w.is_empty())
        .collect();
    let mut joined = words.join("-");
    joined.truncate(20);
    let trimmed = joined.trim_matches('-');
    if trimmed.is_empty() { "project".into() } else { trimmed.into() }
}

/// The unique part of a slug: SHA-256 as a number in base 36, the first 14 characters.
pub fn hash_part(input: &[u8]) -> String {
    // A number below 36^13 would be shorter; padding keeps every hash as long.
    let number = BigUint::from_bytes_be(&Sha256::digest(input)).to_str_radix(36);
    format!("{number:0>14}")[..14].into()
}

/// The repository's name in a remote URL: the last path segment without `.git`.
pub fn repository_name(url: &str) -> &str {
    let url = url.split_once("://").map_or(url, |(_, rest)| rest);
    let url = url.split_once('@').map_or(url, |(_, rest)| rest);
    let url = url.trim_end_matches('/');
    let last = url.rsplit('/').next().unwrap_or(url);
    let last = last.rsplit(':').next().unwrap_or(last);
    last.strip_suffix(".git").unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_vectors() {
        for (input, hash) in [
            ("git@github.com:inoio/myproject.git", "373oarbknw0unk"),
            ("https://github.com/inoio/myproject.git", "3ekew7s9t14f03"),
            ("github.com:inoio/myproject", "1714qeqf40aumg"),
            ("/home/u/myproject/.git", "4chyvv5c1qh507"),
            ("/home/u/myproject", "q2isgns75ygz1l"),
        ] {
            assert_eq!(hash_part(input.as_bytes()), hash, "{input}");
        }
    }

    #[test]
    fn a_slug_is_taken_back_and_nothing_else() {
        let slug = CheckoutSlug::new("My Project", Path::new("/home/u/myproject/.git"));
        assert_eq!(slug.as_str().parse(), Ok(slug));
        for text in ["", "-a", "../a", "A", "a/b", "a b"] {
            assert!(text.parse::<CheckoutSlug>().is_err(), "{text}");
        }
    }

    #[test]
    fn folders() {
        for (name, folder) in [
            ("My Project", "my-project"),
            ("日本", "project"),
            ("2024", "2024"),
            ("__a__b__", "a-b"),
            ("abcdefghijklmnopqrs-tuv", "abcdefghijklmnopqrs"),
            ("", "project"),
        ] {
            assert_eq!(folder_part(name), folder, "{name}");
        }
    }

    #[test]
    fn repository_names() {
        for (url, name) in [
            ("git@github.com:inoio/myproject.git", "myproject"),
            ("https://user@host/a/b/thing.git/", "thing"),
            ("host:thing", "thing"),
            ("/srv/git/thing.git", "thing"),
        ] {
            assert_eq!(repository_name(url), name, "{url}");
        }
    }
}
