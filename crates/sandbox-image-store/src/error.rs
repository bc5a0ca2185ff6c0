use sandbox_runtime::RuntimeError;
use sandbox_state::StateError;

/// What a driver says of a record that cannot be read or written.
pub fn from_state(error: StateError) -> RuntimeError {
    match error {
        StateError::Io(error) => RuntimeError::Io(error),
        StateError::Malformed { path, problem } => RuntimeError::BadRecord { path, problem },
        StateError::Newer { path, version, known } => RuntimeError::NewerRecord { path, version, known },
        StateError::Unsafe { path, problem } => RuntimeError::Unsafe { path, problem },
        other => RuntimeError::Other { context: other.to_string(), source: None },
    }
}
