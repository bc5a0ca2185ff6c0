use sandbox_runtime::RuntimeError;
use sandbox_state::StateError;
use sandbox_wire::FrameError;

pub fn from_state(error: StateError) -> RuntimeError {
    match error {
        StateError::Io(error) => RuntimeError::Io(error),
        StateError::Malformed { path, problem } | StateError::Unsafe { path, problem } => {
            RuntimeError::BadRecord { path, problem }
        }
        other => RuntimeError::Other { context: other.to_string(), source: None },
    }
}

pub fn from_frame(error: FrameError) -> RuntimeError {
    match error {
        FrameError::Io(error) => RuntimeError::Io(error),
        other => RuntimeError::other(other.to_string()),
    }
}
