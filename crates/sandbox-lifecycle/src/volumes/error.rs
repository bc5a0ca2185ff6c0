use sandbox_model::{SandboxName, Status, VolumeName};

use crate::{LifecycleError, Target};

/// Facts about what went wrong with a home volume. The program adds hints.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    #[error("there is no home volume `{0}`")]
    NoSuchVolume(VolumeName),
    /// A sandbox exists that mounts it.
    #[error("home volume `{volume}` belongs to sandbox `{sandbox}`, which is {status}")]
    InUse { volume: VolumeName, sandbox: SandboxName, status: Status },
    /// The state file of a sandbox that exists names it as current.
    #[error("home volume `{volume}` is the current home of sandbox `{sandbox}`")]
    Current { volume: VolumeName, sandbox: SandboxName },
    /// The state file of its sandbox cannot be read: it may be the current one.
    #[error(
        "whether home volume `{volume}` is the current home of sandbox `{sandbox}` cannot be told: {problem}"
    )]
    Unknown { volume: VolumeName, sandbox: SandboxName, problem: String },
    #[error("sandbox `{}` has no home volume yet", .0.name())]
    NoHome(Target),
    /// Its files change while it runs, so they cannot be copied.
    #[error("sandbox `{0}` is running and writes to its home volume")]
    Running(SandboxName),
    #[error("home volume `{0}` belongs to another sandbox")]
    Foreign(VolumeName),
}

macro_rules! through_lifecycle {
    ($($error:ty),*) => {$(
        impl From<$error> for VolumeError {
            fn from(error: $error) -> Self {
                Self::Lifecycle(error.into())
            }
        }
    )*};
}
through_lifecycle!(sandbox_runtime::RuntimeError, sandbox_state::StateError, std::io::Error);
