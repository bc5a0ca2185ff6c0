use sandbox_model::{AgentName, ByteSize, SandboxName, VolumeName};

use crate::Change;

/// What the user is asked in the middle of a use case. Without anyone to ask, everything stays as it is.
pub trait Decisions: Send + Sync {
    /// A person answers, and may be away: whoever asks holds no lock meanwhile, and looks anew at all that the
    /// question rested on.
    fn takes_time(&self) -> bool {
        true
    }

    /// Others use the sandbox, and it would have to start again for these changes.
    fn running(&self, _question: &RunningQuestion<'_>) -> RunningChoice {
        RunningChoice::Keep
    }

    /// Its memory is saved, and would be dropped for these changes.
    fn sleeping(&self, _question: &SleepingQuestion<'_>) -> RunningChoice {
        RunningChoice::Keep
    }

    /// Others use the agent's server, which would have to start again for its new configuration.
    fn server(&self, _question: &ServerQuestion<'_>) -> ServerChoice {
        ServerChoice::Keep
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

impl Decisions for KeepAll {
    fn takes_time(&self) -> bool {
        false
    }
}

/// A sandbox that others use, and that would have to start again.
#[derive(Debug, Clone, Copy)]
pub struct RunningQuestion<'a> {
    /// The one in question.
    pub sandbox: &'a SandboxName,
    /// Those that need a start, and nothing else.
    pub changes: &'a [Change],
    /// Who or what uses it: `held by 2 clients`, `held: 1 busy session`.
    pub held: &'a str,
}

/// A sandbox that sleeps, and could not wake with these changes.
#[derive(Debug, Clone, Copy)]
pub struct SleepingQuestion<'a> {
    /// The one in question.
    pub sandbox: &'a SandboxName,
    /// Everything that differs.
    pub changes: &'a [Change],
    /// On disk.
    pub memory: ByteSize,
}

/// An agent's server that others use, and that has new configuration.
#[derive(Debug, Clone, Copy)]
pub struct ServerQuestion<'a> {
    /// The sandbox that it runs in.
    pub sandbox: &'a SandboxName,
    /// Whose server it is.
    pub agent: AgentName,
    /// Who or what uses it, as in [`RunningQuestion::held`].
    pub held: &'a str,
}

/// What to do with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerChoice {
    /// It goes on, and reads its new configuration when it next starts.
    Keep,
    /// Cut the others off.
    Restart,
    /// Give up with [`Declined`].
    Quit,
}

/// What to do with a sandbox that has something to lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunningChoice {
    /// Go on with the sandbox as it is; the changes wait.
    Keep,
    /// Cut the others off, and end what is in its memory.
    Proceed,
    /// Give up with [`Declined`].
    Quit,
}

/// A home that was made from another image than the one that the sandbox gets now.
#[derive(Debug, Clone, Copy)]
pub struct HomeQuestion<'a> {
    /// The sandbox that is about to be made anew.
    pub sandbox: &'a SandboxName,
    /// The home that it has.
    pub volume: &'a VolumeName,
    /// The image's, old and new.
    pub change: Option<&'a Change>,
}

/// What to do with the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeChoice {
    /// Go on with it, as it is.
    Keep,
    /// A new home from the image. The old volume stays where it is.
    Reset,
    /// Likewise, with the old one's files on top.
    Migrate,
    /// Give up with [`Declined`].
    Quit,
}

/// A newer version of an agent, and the one that is there.
#[derive(Debug, Clone, Copy)]
pub struct VersionQuestion<'a> {
    /// Whose versions they are.
    pub agent: AgentName,
    /// What the image holds, as npm names it.
    pub installed: &'a str,
    /// What npm named last.
    pub newest: &'a str,
}

/// What to do about the newer version.
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
    /// Whether this is what ended a use case: then there is nothing to report and nothing to mend.
    pub fn is(error: &crate::LifecycleError) -> bool {
        let crate::LifecycleError::Io(error) = error else { return false };
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }

    pub(crate) fn error() -> crate::LifecycleError {
        std::io::Error::other(Self).into()
    }
}
