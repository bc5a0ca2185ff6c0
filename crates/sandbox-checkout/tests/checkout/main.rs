//! Real repositories, made with `git`.

// Not code of the program: a test that cannot go on should stop there.
#![allow(clippy::unwrap_used)]

mod forged;
mod lab;
mod plain;
mod worktrees;
