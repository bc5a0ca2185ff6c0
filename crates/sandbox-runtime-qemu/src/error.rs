pub use sandbox_image_store::from_state;
use sandbox_runtime::RuntimeError;
use sandbox_wire::FrameError;

/// An error of the stream stays one; what cannot be understood is told in words.
pub fn from_frame(error: FrameError) -> RuntimeError {
    match error {
        FrameError::Io(error) => RuntimeError::Io(error),
        other => RuntimeError::other(other.to_string()),
    }
}
