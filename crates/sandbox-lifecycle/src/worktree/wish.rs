use std::fmt;
use std::str::FromStr;

/// `NAME[:BASE]`, as it is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeWish {
    /// Lower-case letters and digits, with single hyphens between them: the server would change any other.
    pub name: String,
    /// What git makes a commit of: a branch, a tag, a hash, `HEAD~2`.
    pub base: Option<String>,
}

/// Facts about a word that is no `NAME[:BASE]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWorktree {
    #[error(
        "`{0}` is not the name of a worktree: lower-case letters, digits and single hyphens, as in fix-login"
    )]
    Name(String),
    #[error("`{0}:` names no commit after the colon")]
    Base(String),
}

impl FromStr for WorktreeWish {
    type Err = InvalidWorktree;

    fn from_str(text: &str) -> Result<Self, InvalidWorktree> {
        let (name, base) = match text.split_once(':') {
            Some((name, base)) => (name, Some(base)),
            None => (text, None),
        };
        let word = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        if !name.split('-').all(word) {
            return Err(InvalidWorktree::Name(name.into()));
        }
        if base.is_some_and(|base| base.trim().is_empty()) {
            return Err(InvalidWorktree::Base(name.into()));
        }
        Ok(Self { name: name.into(), base: base.map(Into::into) })
    }
}

impl fmt::Display for WorktreeWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base {
            None => f.write_str(&self.name),
            Some(base) => write!(f, "{}:{base}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_slugs_and_a_base_is_anything() {
        for (text, name, base) in [
            ("fix", "fix", None),
            ("fix-2-it:main", "fix-2-it", Some("main")),
            ("a:HEAD~2:x", "a", Some("HEAD~2:x")),
        ] {
            let wish: WorktreeWish = text.parse().unwrap();
            assert_eq!((wish.name.as_str(), wish.base.as_deref()), (name, base));
            assert_eq!(wish.to_string(), text);
        }
        for text in ["", ":main", "Fix", "a--b", "-a", "a-", "a b", "../x", "a/b", "ä", "fix:", "fix: "] {
            assert!(text.parse::<WorktreeWish>().is_err(), "{text:?}");
        }
    }
}
