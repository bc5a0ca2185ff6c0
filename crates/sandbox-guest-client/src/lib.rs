//! The host's end of the link to the guest program.
//!
//! ```text
//! driver ── Link (yamux) ══ whatever carries bytes into the guest ══ guest program
//!    │         └ one stream per command or connection, each with its own flow control
//!    └ exec, dial, sessions: frames over a socket that a stream is copied to
//! ```

pub mod async_frames;
mod dial;
mod exec;
mod frames;
mod link;
pub mod ports;
mod relay;
mod sessions;

pub use dial::{accept_ssh_agent, dial};
pub use exec::exec;
pub use link::{GuestStream, Link, Window};
pub use relay::{left, open_socket, relay};
pub use sessions::{attach, end_session, sessions};
