use std::io;
use std::path::PathBuf;

/// Why a folder's checkout cannot be told. Each names the path that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    #[error("the folder {} cannot be entered", path.display())]
    Folder { path: PathBuf, source: io::Error },

    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },

    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },

    #[error("{} is not a valid pointer to a git directory: {reason}", path.display())]
    MalformedPointer { path: PathBuf, reason: String },

    #[error("{} points to {}, where there is no git repository", path.display(), target.display())]
    PointsNowhere { path: PathBuf, target: PathBuf },

    #[error("the git configuration {} is malformed: {reason}", path.display())]
    MalformedConfig { path: PathBuf, reason: String },
}
