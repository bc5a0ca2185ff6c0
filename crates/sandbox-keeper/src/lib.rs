//! The background process of one running sandbox, and its clients.
//!
//! ```text
//!              lease                    no client, nothing holds      stopped, or the sandbox is gone
//! client ─────────────► serving ───────────────────────────────► stopping ──────────────────────► over
//!                        │   ▲            for auto-stop-timeout      │
//!                        └───┘                                       └─ a new client is told to wait
//!                  client comes or goes
//! ```
//!
//! - Life is a held lock; a lease is an open connection. A crash of either side ends both.
//! - One thread takes every connection, owns every fact and decides. What may block (asking the agent,
//!   asking or stopping the runtime) happens on threads that only report to it.
//! - Between the last look for clients and the step to *stopping* nothing else happens: a client is either
//!   counted before the decision, or told that the sandbox is being stopped.
//! - What to do is the pure function [`decide`].

mod client;
mod config;
mod connection;
mod crowd;
mod decide;
mod error;
mod journal;
mod keeper;
mod mailbox;
mod reason;
mod spawn;
mod ssh_agent;
mod workers;

pub use client::{Draining, Lease, LeaseOutcome, lease, lease_or_start, status};
pub use config::{KeeperConfig, Timing};
pub use decide::{AgentView, Decision, Inputs, Rules, decide};
pub use error::{ClientError, KeeperError};
pub use keeper::{Ended, run};
pub use reason::{Note, Reason};
pub use sandbox_model::{Activity, ActivityError, NoSessions, Session, SessionKind};
pub use sandbox_wire::{ClientInfo, KeeperStatus, SshAgentOffer};
pub use spawn::{Ready, leave_terminal, spawn};
