use std::fmt;
use std::time::Duration;

/// What holds a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// So many open leases.
    Clients(usize),
    /// Somebody asked for it, for this much longer.
    Kept {
        /// What is left of that time.
        left: Duration,
    },
    /// The agent was asked and has not answered yet.
    Asking,
    /// Sessions of the agent that work, or will.
    Sessions {
        /// At work at this moment.
        busy: usize,
        /// In retry, fewer times than allowed.
        retrying: usize,
    },
    /// The agent cannot be asked; it holds the sandbox for this much longer.
    NoAnswer {
        /// What the last question came to, for people.
        error: String,
        /// What is left of the agent's time to answer.
        left: Duration,
    },
}

/// What should be known beside "nothing holds it".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// Sessions that wait for the user.
    pub waiting: usize,
    /// Sessions that have retried too often.
    pub stuck: usize,
    /// Why the agent, out of patience, counts as one without sessions.
    pub no_answer: Option<String>,
}

fn count(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

/// Whole seconds, rounded up: "in 0 s" would be now.
pub(crate) const fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + (duration.subsec_nanos() > 0) as u64
}

/// For people, rounded up: `2 h`, `5 min`, `40 s`.
fn roughly(duration: Duration) -> String {
    match seconds(duration) {
        left if left > 2 * 3600 => format!("{} h", left.div_ceil(3600)),
        left if left > 2 * 60 => format!("{} min", left.div_ceil(60)),
        left => format!("{left} s"),
    }
}

impl Reason {
    /// Whether another one differs by more than the time it names: what a log writes down.
    pub fn is_another(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::NoAnswer { error, .. }, Self::NoAnswer { error: before, .. }) => error != before,
            (Self::Kept { .. }, Self::Kept { .. }) => false,
            _ => self != other,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(clients) => write!(f, "held by {}", count(*clients, "client")),
            Self::Kept { left } => write!(f, "held: kept for {}", roughly(*left)),
            Self::Asking => f.write_str("held: the agent is being asked"),
            Self::Sessions { busy, retrying: 0 } => write!(f, "held: {}", count(*busy, "busy session")),
            Self::Sessions { busy: 0, retrying } => {
                write!(f, "held: {}", count(*retrying, "retrying session"))
            }
            Self::Sessions { busy, retrying } => {
                write!(f, "held: {}, {}", count(*busy, "busy session"), count(*retrying, "retrying session"))
            }
            Self::NoAnswer { error, left } => {
                write!(f, "held for {} s more: the agent does not answer ({error})", seconds(*left))
            }
        }
    }
}

/// Empty where there is nothing to say, otherwise it begins with a colon.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = ": ";
        let mut add = |text: String| {
            let written = write!(f, "{separator}{text}");
            separator = ", ";
            written
        };
        match self.waiting {
            0 => {}
            1 => add("1 session waits for the user".into())?,
            many => add(format!("{many} sessions wait for the user"))?,
        }
        match self.stuck {
            0 => {}
            1 => add("1 session retries in vain".into())?,
            many => add(format!("{many} sessions retry in vain"))?,
        }
        match &self.no_answer {
            None => Ok(()),
            Some(error) => add(format!("the agent does not answer ({error})")),
        }
    }
}
