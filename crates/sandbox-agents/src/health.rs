use serde::Deserialize;

use crate::{Server, ServerError};

/// What a server that answers says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// `false` is as good as no answer: whoever waits goes on waiting.
    pub healthy: bool,
    /// The server's own; empty where it does not say.
    #[serde(default)]
    pub version: String,
}

/// Asks once. A server that still boots accepts the request and never answers it, so callers give a short
/// timeout and ask again on a new connection.
pub fn health(server: &Server<'_>) -> Result<Health, ServerError> {
    server.json(server.profile().health_path, None)
}
