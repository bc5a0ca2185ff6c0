use std::path::PathBuf;

use sandbox_model::NetworkPolicy;
use sandbox_runtime::RuntimeError;

use crate::patience::Patience;

/// What the driver needs from the program around it.
pub struct MsbOptions {
    /// Gives the pinned `msb`, installing it if need be. Asked once, before the first call of `msb`.
    pub msb: Box<dyn Fn() -> Result<PathBuf, RuntimeError> + Send + Sync>,
    /// This program, whose `internal link` runs [`crate::link_process::run`], and `internal outlet FOLDER`
    /// [`crate::serve_outlet`]; without one, every process has links of its own, and no sandbox starts that reaches
    /// something.
    pub program: Option<PathBuf>,
    /// The guest program, a static binary.
    pub guest_program: &'static [u8],
    /// How many processors a machine may grow to; without a number, as many as this process may use.
    pub most_cpus: Option<u32>,
    /// A policy as the rules of `msb create --net-rule`, first match first; `None` for a guest that reaches
    /// nothing at all. The host is what has an address in [`crate::ADDRESS_POOLS`].
    pub network_rules: fn(&NetworkPolicy) -> Result<Option<Vec<String>>, RuntimeError>,
    /// Receives sentences for the user: what a sandbox goes without.
    pub notice: Box<dyn Fn(&str) + Send + Sync>,
    /// How long each kind of call of `msb` may take.
    pub patience: Patience,
}

impl std::fmt::Debug for MsbOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MsbOptions").finish_non_exhaustive()
    }
}
