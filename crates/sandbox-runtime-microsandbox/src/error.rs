use sandbox_runtime::RuntimeError;
use sandbox_state::StateError;

pub fn from_state(error: StateError) -> RuntimeError {
    match error {
        StateError::Io(error) => error.into(),
        StateError::Malformed { path, problem } => RuntimeError::BadRecord { path, problem },
        other => RuntimeError::Other { context: other.to_string(), source: Some(Box::new(other)) },
    }
}
