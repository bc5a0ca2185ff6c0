//! What of the user's ssh-agent a guest may ask, and the one who asks for it.
//!
//! ```text
//! guest ──request──► Request::parse ──► Identities ─► the agent's list, less what the rules leave out
//!                                   ├─► Sign ───────► a key of that list, a purpose of the rules: the agent
//!                                   └─► Other ──────► SSH_AGENT_FAILURE, and the agent never hears of it
//! ```
//!
//! The protocol is draft-ietf-sshm-ssh-agent: a big-endian length, a type byte, and fields. Adding and removing
//! keys, locking the agent and its extensions are not for guests.

mod agent;
mod forward;
mod identity;
mod message;
mod purpose;

pub use agent::AgentError;
pub use forward::{Event, forward};
pub use identity::{Identity, fingerprint};
pub use message::{MAX_MESSAGE, Malformed, Request};
pub use purpose::Purpose;
