use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::InvalidName;

/// The name of a coding agent. Which agents there are, their profiles say: a record may name one that this version
/// of the program does not know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentName {
    /// Zeros after the name, so that names are compared as their bytes are.
    bytes: [u8; Self::LONGEST],
}

impl AgentName {
    /// What is run where no setting says otherwise.
    pub const OPENCODE: Self = Self::literal("opencode");

    const LONGEST: usize = 32;

    /// A name that stands in the program's own text.
    ///
    /// # Panics
    ///
    /// Where it is none; in a constant, it does not compile.
    pub const fn literal(name: &str) -> Self {
        match Self::new(name) {
            Some(name) => name,
            None => panic!("not the name of an agent"),
        }
    }

    /// Words of lower-case letters and digits, with single dashes between them; the first begins with a letter.
    const fn new(name: &str) -> Option<Self> {
        let name = name.as_bytes();
        if name.is_empty() || name.len() > Self::LONGEST || name[name.len() - 1] == b'-' {
            return None;
        }
        let mut bytes = [0; Self::LONGEST];
        let mut at = 0;
        while at < name.len() {
            let good = match name[at] {
                b'a'..=b'z' => true,
                b'0'..=b'9' => at > 0,
                b'-' => at > 0 && name[at - 1] != b'-',
                _ => false,
            };
            if !good {
                return None;
            }
            bytes[at] = name[at];
            at += 1;
        }
        Some(Self { bytes })
    }

    /// The name as commands, settings, labels and folders have it: ASCII, at most 32 characters.
    pub fn as_str(&self) -> &str {
        let length = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(Self::LONGEST);
        // ASCII, as it was made.
        std::str::from_utf8(&self.bytes[..length]).unwrap_or_default()
    }
}

impl fmt::Debug for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentName").field(&self.as_str()).finish()
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for AgentName {
    type Err = InvalidName;

    /// Takes a name back from a label or a record. One that a person typed has to be known as well.
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let rule =
            "it must have 1 to 32 lower-case letters, digits and single dashes, and start with a letter";
        Self::new(text).ok_or_else(|| InvalidName { what: "agent", name: text.into(), rule })
    }
}

impl TryFrom<String> for AgentName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<AgentName> for String {
    fn from(name: AgentName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_back_whether_it_is_known_or_not() {
        let longest = "a".repeat(32);
        for text in ["opencode", "opencode2", "pi", "claude-code", "not-made-yet", "x", longest.as_str()] {
            let name: AgentName = text.parse().unwrap();
            assert_eq!((name.as_str(), format!("{name:>3}").trim()), (text, text));
        }
        assert_eq!("opencode".parse::<AgentName>(), Ok(AgentName::OPENCODE));
        assert_ne!("opencode2".parse::<AgentName>(), Ok(AgentName::OPENCODE));
    }

    #[test]
    fn what_could_leave_its_folder_or_become_an_option_is_no_name() {
        let long = "a".repeat(33);
        for text in ["", "-", "-rf", "a-", "a--b", "2", "A", "a b", "a/b", "..", "a.b", "ä", "a\0b", &long] {
            assert!(text.parse::<AgentName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_are_in_the_order_of_the_alphabet() {
        let mut names = ["pi", "opencode2", "claude-code", "opencode"].map(AgentName::literal);
        names.sort();
        assert_eq!(names.map(|name| name.to_string()), ["claude-code", "opencode", "opencode2", "pi"]);
    }
}
