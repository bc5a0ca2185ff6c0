//! The process through which everything leaves a sandbox, one per sandbox that has a network card. The card itself is
//! served by the engine in `msb`'s machine, which knows this process as its proxy and its resolver.
//!
//! ```text
//! guest ── card ── engine in the machine ─ rules ─┬─ SOCKS 5 ─► relay ──┬─► destination, or the host's proxy
//!                                                 └─ names ──► resolver │   secrets are put in on the way
//! driver ─ pipe: configuration, the machine ─► this process ────────────┘
//!        └ socket: other values of secrets ──►   holds `outlet.lock`; ends with the machine
//! ```

pub mod link;
mod process;
pub mod rules;
pub mod secrets;
pub mod trust;
mod word;

pub use process::{OutletProcessError, serve};

use sandbox_model::SecretValue;
use sandbox_runtime::RuntimeError;
use sandbox_state::is_locked;
use serde::{Deserialize, Serialize};

use crate::error::from_state;
use crate::files::SandboxPaths;
use crate::machine;

/// The variable of `msb` in which the relay's password is. Only who knows it may use the relay, so that others on this
/// computer, and guests that reach its loopback, do not get out through it.
pub const PASSWORD: &str = "AGENTS_SANDBOX_OUTLET_PASSWORD";
/// Its user, in no need of being secret.
const USER: &str = "sandbox";

/// What is told on the pipe once the boot has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Booted {
    /// The process that the outlet ends with; none came up.
    machine: Option<u32>,
}

/// Whether the noted machine lives and no outlet does. An outlet ends after its machine, so that this order of looking
/// takes no end of both for one of the outlet alone.
pub fn is_lost(paths: &SandboxPaths) -> Result<bool, RuntimeError> {
    let is_held = is_locked(&paths.outlet_lock()).map_err(from_state)?;
    Ok(!is_held && machine::noted(paths).is_some_and(machine::has_program))
}

/// A password for one boot.
fn password() -> SecretValue {
    SecretValue::new(format!("{:032x}", rand::random::<u128>()))
}
