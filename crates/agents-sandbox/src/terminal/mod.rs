//! A command in a sandbox on the user's terminal, or on the user's pipes.
//!
//! ```text
//!            ┌── stdin thread ───► input          (only when input is passed on)
//!  terminal ─┤   signal thread ──► forwarder ───► input (sizes, signals)
//!            └── pump thread ◄──── output         (stdout, stderr; watches screen modes)
//!                     │
//!        Exited, signal to leave, reader gone ──► the caller, who puts the terminal back
//! ```
//!
//! Every thread may block in the guest or in the terminal; the caller waits for whatever comes first and
//! never for a thread.

mod attach;
mod choose;
mod confirm;
mod forward;
mod interrupt;
mod modes;
mod pump;
mod raw;
mod signals;
mod size;
mod stdin;
mod variables;
mod write;

pub use attach::{Ended, Streams, attach};
pub use choose::choose;
pub use confirm::{can_ask, confirm};
pub use interrupt::{Interruptible, interrupted, interruptible};
pub use size::terminal_size;
pub use variables::describe_terminal;
