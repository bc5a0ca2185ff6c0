use std::os::unix::net::UnixStream;

use sandbox_model::SandboxName;
use sandbox_runtime::RuntimeError;
use sandbox_wire::FrameError;
use serde::de::DeserializeOwned;

/// What a broken frame means to whoever uses the sandbox.
pub fn lost(name: &SandboxName, error: FrameError) -> RuntimeError {
    match error {
        FrameError::Closed | FrameError::Malformed(_) => RuntimeError::Lost(name.clone()),
        FrameError::Io(error) => error.into(),
        other @ FrameError::TooLarge(_) => RuntimeError::other(other.to_string()),
    }
}

pub fn read<T: DeserializeOwned>(name: &SandboxName, socket: &mut UnixStream) -> Result<T, RuntimeError> {
    sandbox_wire::read_message(socket).map_err(|error| lost(name, error))
}
