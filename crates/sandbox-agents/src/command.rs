use std::ffi::{OsStr, OsString};

/// What is known when an agent is started on the user's terminal.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Absolute guest folder to work in.
    pub guest_dir: &'a str,
    /// Password of the agent's server; unused where there is none.
    pub password: &'a str,
    /// The user's words, which reach the agent unchanged.
    pub args: &'a [OsString],
}

/// A command line as words, never as text for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program, then its arguments, the user's own last.
    pub argv: Vec<OsString>,
    /// Secrets travel here and never in `argv`, which every process in the guest can read.
    pub env: Vec<(String, String)>,
}

impl AgentCommand {
    /// `words`, then the user's own.
    pub(crate) fn new(words: &[&str], args: &[OsString]) -> Self {
        let words = words.iter().map(OsString::from).chain(args.iter().cloned());
        Self { argv: words.collect(), env: Vec::new() }
    }
}

/// Whether `--name` or `--name=…` is among the options, those after `--` not counted.
pub(crate) fn has_option(args: &[OsString], name: &str) -> bool {
    args.iter().take_while(|arg| *arg != OsStr::new("--")).any(|arg| {
        arg.to_str().is_some_and(|arg| {
            arg.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    })
}
