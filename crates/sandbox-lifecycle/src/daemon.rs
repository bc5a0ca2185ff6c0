use crate::{Context, LifecycleError, Result, Up, UpRequest};

/// How to reach the agent's server inside the guest. Valid for one boot.
#[derive(Clone, PartialEq, Eq)]
pub struct Daemon {
    /// On the guest's loopback.
    pub port: u16,
    pub password: String,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Makes sure that the agent's server answers, starting it where it does not. `None` for an agent that has
/// no server.
pub fn ensure_daemon(context: &Context<'_>, request: &UpRequest, up: &Up) -> Result<Option<Daemon>> {
    context.reporter.verbose(&format!("looking for the server of {}", request.agent));
    Err(LifecycleError::NoSuchSandbox(up.name.clone()))
}
