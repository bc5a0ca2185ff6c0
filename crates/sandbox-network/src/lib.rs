//! What a guest may reach, and the bridge between its network card and the world.
//!
//! ```text
//! guest ── card ── QEMU ══ socket: frames ══ bridge (one process per sandbox) ── sockets of the host
//!                                              │
//!                         policy ─ compile ─► engine: addresses, names, denials
//! ```
//!
//! The engine is microsandbox's: a TCP/IP stack in this process ends every connection of the guest, asks
//! the policy, and makes a connection of its own. Nothing of the host's network is shared with the guest.
//! Where there are secrets, a gateway behind the engine ends TLS, with certificates that this guest alone trusts, and
//! replaces their stand-ins on the way to the hosts that may have them.

mod addresses;
mod answers;
mod authority;
mod begin;
mod bridge;
mod compile;
mod entry;
mod event;
mod event_log;
mod floor;
mod framing;
mod gateway;
mod log;
mod named;
mod outlet;
mod ping;
mod pump;
mod rights;
mod secrets;
mod server_first;
mod tokens;
mod turns;
mod upstream;
mod wake;
mod watch;

pub use addresses::{GuestAddresses, MAX_SLOT};
pub use authority::Authority;
pub use bridge::{BridgeConfig, BridgeError, RunAs, bridge};
pub use compile::{check, needs_card};
pub use entry::{EgressList, PolicyError};
pub use event::{Event, EventKind, Verdict};
pub use outlet::{OutletAddresses, OutletConfig, outlet};
pub use secrets::{BridgeSecrets, SecretError, ports as tls_ports};
pub use tokens::rule_tokens;
