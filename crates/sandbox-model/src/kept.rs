use serde::{Deserialize, Serialize};

use crate::{ExitStatus, TermSize};

/// What a command is remembered by that outlives its terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// What it is to whoever asks for it again: `shell`, `agent`. A word of the program's.
    pub kind: String,
    /// Two of a kind with the same key are as good as each other. A word of the program's.
    pub key: String,
    /// For people: what was typed, or the like.
    pub title: String,
}

/// A command on a terminal that the guest keeps: it goes on without anyone attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSession {
    /// From 1 on, in the order of their begin; never given twice in one boot.
    pub id: u32,
    /// What it was begun as, for whoever looks for it.
    pub keep: Keep,
    /// Where it began, in the guest.
    pub cwd: String,
    /// Name in the guest's `/etc/passwd` that it runs as.
    pub user: String,
    /// When it began, in seconds since 1970, by the guest's clock.
    pub created: i64,
    /// The size its terminal has now.
    pub size: TermSize,
    /// Terminals attached now.
    pub clients: u32,
    /// It has ended, and nobody was attached to see it.
    pub ended: Option<ExitStatus>,
}

impl KeptSession {
    /// It runs, and nobody is attached.
    pub const fn is_detached(&self) -> bool {
        self.clients == 0 && self.ended.is_none()
    }
}

/// How a kept session was brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionEnd {
    /// It had ended before.
    Over,
    /// Its command, and what was in the foreground of its terminal, left when they were hung up.
    HungUp,
    /// They stayed, and everything on the terminal left when it was asked to end (`TERM`).
    Terminated,
    /// That was ignored too: everything on the terminal was killed.
    Killed,
}
