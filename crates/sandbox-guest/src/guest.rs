use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sandbox_wire::TOKEN;
use tokio::sync::Notify;

use crate::kept::Registry;
use crate::machine::Machine;
use crate::ssh_agent::Clients;

/// What commands need to know of the sandbox they run in.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The environment of every command: the image's own and the sandbox's.
    pub env: Vec<(String, String)>,
    /// Who a command runs as whose request names nobody.
    pub user: String,
}

/// The state that all sessions share. It outlives a link: a host that comes back finds its sandbox booted.
pub struct Guest {
    pub(crate) machine: Arc<dyn Machine>,
    boot_asked: AtomicBool,
    settings: OnceLock<Settings>,
    stopping: AtomicBool,
    pub(crate) power_off: Notify,
    /// The token of the wake call to wait for, and word that the link is to end for it.
    asleep: Mutex<Option<[u8; TOKEN]>>,
    pub(crate) falls_asleep: Notify,
    /// Commands that outlive their clients.
    pub(crate) kept: Registry,
    /// Those who want to speak with the user's ssh-agent.
    pub(crate) ssh_agent: Arc<Clients>,
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Guest {
    /// A guest that waits for its boot configuration.
    pub fn new(machine: Arc<dyn Machine>) -> Self {
        Self {
            machine,
            boot_asked: AtomicBool::new(false),
            settings: OnceLock::new(),
            stopping: AtomicBool::new(false),
            power_off: Notify::new(),
            asleep: Mutex::new(None),
            falls_asleep: Notify::new(),
            kept: Registry::default(),
            ssh_agent: Arc::default(),
        }
    }

    /// The settings of a booted guest.
    pub fn settings(&self) -> Option<&Settings> {
        self.settings.get()
    }

    /// From now on commands run. The first call decides.
    pub fn booted(&self, settings: Settings) {
        self.boot_asked.store(true, Ordering::Relaxed);
        let _ = self.settings.set(settings);
    }

    /// True for the one caller that may boot the machine.
    pub(crate) fn claim_boot(&self) -> bool {
        !self.boot_asked.swap(true, Ordering::Relaxed)
    }

    /// True for the one caller that may shut the machine down; commands are refused from here on.
    pub(crate) fn claim_shutdown(&self) -> bool {
        !self.stopping.swap(true, Ordering::Relaxed)
    }

    /// The link is to end until a wake call with `token` comes.
    pub(crate) fn fall_asleep(&self, token: [u8; TOKEN]) {
        *self.asleep.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
        self.falls_asleep.notify_one();
    }

    /// The token of the wake call to wait for, once.
    pub(crate) fn take_token(&self) -> Option<[u8; TOKEN]> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
