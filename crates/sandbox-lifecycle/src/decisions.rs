use sandbox_model::{AgentName, SandboxName, VolumeName};

use crate::Change;

/// What the user is asked in the middle of a use case. Without anyone to ask, everything stays as it is.
pub trait Decisions: Send + Sync {
    /// Others use the sandbox, and it would have to start again for these changes.
    fn running(&self, _question: &RunningQuestion<'_>) -> RunningChoice {
        RunningChoice::Keep
    }

    /// The image changed, and the sandbox is about to be made anew.
    fn home(&self, _question: &HomeQuestion<'_>) -> HomeChoice {
        HomeChoice::Keep
    }

    /// There is a newer version of the agent than the sandbox has.
    fn version(&self, _question: &VersionQuestion<'_>) -> VersionChoice {
        VersionChoice::Tell
    }
}

/// The answers of nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepAll;

impl Decisions for KeepAll {}

#[derive(Debug, Clone, Copy)]
pub struct RunningQuestion<'a> {
    pub sandbox: &'a SandboxName,
    /// Those that need a start, and nothing else.
    pub changes: &'a [Change],
    /// Who or what uses it: `held by 2 clients`, `held: 1 busy session`.
    pub held: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunningChoice {
    /// Go on with the sandbox as it is; the changes wait.
    Keep,
    /// Cut the others off.
    Proceed,
    /// Give up with [`Declined`].
    Quit,
}

#[derive(Debug, Clone, Copy)]
pub struct HomeQuestion<'a> {
    pub sandbox: &'a SandboxName,
    pub volume: &'a VolumeName,
    /// The image's, old and new.
    pub change: Option<&'a Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeChoice {
    Keep,
    /// A new home from the image. The old volume stays where it is.
    Reset,
    /// Likewise, with the old one's files on top.
    Migrate,
    /// Give up with [`Declined`].
    Quit,
}

#[derive(Debug, Clone, Copy)]
pub struct VersionQuestion<'a> {
    pub agent: AgentName,
    pub installed: &'a str,
    pub newest: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionChoice {
    /// Build the image with it.
    Upgrade,
    /// Do not ask about this one again.
    Keep,
    /// Give up with [`Declined`].
    Quit,
    /// Nobody answers: it is said in a line.
    Tell,
}

/// The user chose to quit: nothing was changed. It is the source of [`crate::LifecycleError::Io`], where
/// [`Declined::is`] finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped at your request; nothing was changed")]
pub struct Declined;

impl Declined {
    pub fn is(error: &crate::LifecycleError) -> bool {
        let crate::LifecycleError::Io(error) = error else { return false };
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }

    pub(crate) fn error() -> crate::LifecycleError {
        std::io::Error::other(Self).into()
    }
}
