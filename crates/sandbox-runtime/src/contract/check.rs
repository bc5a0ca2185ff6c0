use std::fmt;

use crate::RuntimeError;

/// Why a case failed: one or more sentences for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

/// What a case, or a step of one, comes to.
pub type Outcome<T = ()> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        Self(format!("the runtime says: {error} ({error:?})"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(format!("input or output: {error}"))
    }
}

macro_rules! fail {
    ($($text:tt)+) => {
        return Err($crate::contract::Failure(format!($($text)+)))
    };
}

macro_rules! check {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::contract::Failure(format!($($text)+)));
        }
    };
}

macro_rules! check_eq {
    ($got:expr, $wanted:expr, $($text:tt)+) => {
        // A match, so that temporaries live until the end of it.
        match (&$got, &$wanted) {
            (got, wanted) => {
                if got != wanted {
                    let what = format!($($text)+);
                    return Err($crate::contract::Failure(format!("{what}: got {got:?}, wanted {wanted:?}")));
                }
            }
        }
    };
}

/// The result must be an error of this shape.
macro_rules! check_error {
    ($result:expr, $pattern:pat, $($text:tt)+) => {
        let problem = match $result {
            Err($pattern) => None,
            Err(other) => Some(format!("got another error, {other:?}")),
            Ok(_) => Some("it succeeded".to_string()),
        };
        if let Some(problem) = problem {
            return Err($crate::contract::Failure(format!("{}: {problem}", format_args!($($text)+))));
        }
    };
}

pub(super) use {check, check_eq, check_error, fail};
