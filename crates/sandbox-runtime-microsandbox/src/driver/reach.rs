//! The way into a sandbox that runs.

use std::os::unix::net::UnixStream;
use std::sync::PoisonError;
use std::time::Duration;

use sandbox_model::{SandboxName, Status};
use sandbox_runtime::{Result, Runtime, RuntimeError};
use sandbox_state::LockMode;

use super::MsbRuntime;
use crate::link::GuestLink;
use crate::link_process::SharedLink;
use crate::roster::Roster;
use crate::{guest_program, sessions};

/// What a stream belongs to.
pub(super) enum Way {
    Own(GuestLink),
    Shared(SharedLink),
}

impl Way {
    fn begin<T>(
        &self,
        stream: UnixStream,
        deadline: Duration,
        start: impl FnOnce(UnixStream) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Own(link) => link.begin(stream, deadline, start),
            Self::Shared(link) => link.begin(stream, deadline, start),
        }
    }

    /// What `msb` complained about, as far as this process hears of it.
    fn complaint(&self) -> String {
        match self {
            Self::Own(link) => link.complaint(),
            Self::Shared(_) => String::new(),
        }
    }
}

impl MsbRuntime {
    fn known_link(&self, name: &SandboxName) -> Option<GuestLink> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| link.is_alive());
        links.get(name).cloned()
    }

    /// A link to a sandbox that runs. It waits for a start that is under way, and never causes one: with the
    /// lock shared, no stop of ours comes between the look and `msb exec`, which would start it again.
    pub(super) fn link(&self, name: &SandboxName, action: &'static str) -> Result<GuestLink> {
        if let Some(link) = self.known_link(name) {
            return Ok(link);
        }
        self.existing(name)?;
        let paths = self.paths(name);
        let _lock = Self::change_lock(&paths, LockMode::Shared)?;
        let (paths, record) = self.existing(name)?;
        let status = self.status(&paths, name)?;
        if status != Status::Running {
            return Err(Self::wrong(name, status, action));
        }
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(name).filter(|link| link.is_alive()) {
            return Ok(link.clone());
        }
        let id = guest_program::provide(&self.files, self.options.guest_program)?;
        let msb = self.msb()?;
        let link = GuestLink::open(&self.reactor()?, &msb, name, &id)?;
        links.insert(name.clone(), link.clone());
        // For the next ones.
        self.begin_missing_link(&record, &id)?;
        Ok(link)
    }

    pub(super) fn forget_link(&self, name: &SandboxName) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// A stream of a link that lives. The one that is known may have been lost while nobody used it, and nothing
    /// was asked yet that could happen twice.
    fn stream(&self, name: &SandboxName, action: &'static str) -> Result<(Way, Option<UnixStream>)> {
        if self.known_link(name).is_none()
            && let Some((link, stream)) = SharedLink::stream(&self.paths(name), self.options.patience.work)
        {
            return Ok((Way::Shared(link), Some(stream)));
        }
        let link = self.link(name, action)?;
        if let Some(stream) = link.stream()? {
            return Ok((Way::Own(link), Some(stream)));
        }
        self.forget_link(name);
        let link = self.link(name, action)?;
        let stream = link.stream()?;
        Ok((Way::Own(link), stream))
    }

    /// Opens a stream and uses it. A link that turns out to be dead is told apart from a sandbox that is.
    pub(super) fn with_stream<T>(
        &self,
        name: &SandboxName,
        action: &'static str,
        work: impl FnOnce(&Way, UnixStream) -> Result<T>,
    ) -> Result<T> {
        let (link, stream) = self.stream(name, action)?;
        match stream.map_or_else(|| Err(RuntimeError::Lost(name.clone())), |stream| work(&link, stream)) {
            Err(RuntimeError::Lost(_)) => {
                self.forget_link(name);
                let (paths, _) = self.existing(name)?;
                // Not from the machine's process, which may be on its way out.
                let status = Roster::ask(&self.msb()?)?.status(&paths, name.as_str())?.0;
                if status != Status::Running {
                    return Err(Self::wrong(name, status, action));
                }
                match link.complaint() {
                    said if said.is_empty() => Err(RuntimeError::Lost(name.clone())),
                    said => Err(RuntimeError::other(format!("the link into `{name}` broke: {said}"))),
                }
            }
            other => other,
        }
    }

    /// [`Self::with_stream`] for what the guest answers at once. What comes `before` it is none of the guest's
    /// business, and not on its time.
    pub(super) fn on_stream<T>(
        &self,
        name: &SandboxName,
        action: &'static str,
        before: impl FnOnce() -> Result<()>,
        start: impl FnOnce(UnixStream) -> Result<T>,
    ) -> Result<T> {
        self.with_stream(name, action, |link, stream| {
            before()?;
            let outcome = link.begin(stream, self.options.patience.work, start);
            if matches!(outcome, Err(RuntimeError::NoAnswer { .. })) {
                self.forget_link(name);
            }
            outcome
        })
    }

    /// [`Self::on_stream`] for what knows the sessions of this boot.
    pub(super) fn on_sessions<T>(
        &self,
        name: &SandboxName,
        action: &'static str,
        start: impl FnOnce(UnixStream) -> Result<T>,
    ) -> Result<T> {
        self.existing(name)?;
        let check = || sessions::check(&self.paths(name), self.boot_id(name)?);
        self.on_stream(name, action, check, start)
    }
}
