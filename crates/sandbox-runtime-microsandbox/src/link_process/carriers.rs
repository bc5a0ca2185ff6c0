//! The links that a link process has into its guest: one for new streams, and those before it for as long as anything
//! needs them.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use sandbox_guest_client::{GuestStream, left};
use sandbox_runtime::RuntimeError;
use sandbox_state::{Lock, LockMode};
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use super::LinkConfig;
use crate::call::Msb;
use crate::error::from_state;
use crate::files::{Files, SandboxPaths};
use crate::link::GuestLink;
use crate::machine;
use crate::patience::Patience;
use crate::record::Life;

/// How long at most a stop of the sandbox waits for a link that is being opened.
const LOCKED_FOR: Duration = Duration::from_secs(5);
const ENDED_AT_ONCE: &str = "the link ended at once";

/// A link; it is closed when neither new streams nor old ones need it.
#[derive(Debug)]
pub struct Carrier {
    link: GuestLink,
    pub generation: u64,
    /// This process ends, and nobody is there to see how its `msb exec` leaves.
    over: Arc<AtomicBool>,
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if self.over.load(Ordering::Relaxed) {
            self.link.kill();
        } else {
            self.link.close();
        }
    }
}

/// See the module.
pub struct Carriers {
    config: LinkConfig,
    files: Files,
    paths: SandboxPaths,
    msb: Msb,
    /// The link of new streams.
    current: Mutex<Option<Arc<Carrier>>>,
    all: std::sync::Mutex<Vec<Weak<Carrier>>>,
    /// Of the next link. Those of another link process are others.
    generation: AtomicU64,
    over: Arc<AtomicBool>,
}

impl Carriers {
    /// Without any yet.
    pub fn new(config: LinkConfig, files: Files) -> Self {
        let patience = Patience { work: config.patience, ..Patience::default() };
        Self {
            paths: files.sandbox(&config.name),
            msb: Msb::new(config.msb.clone(), &files, patience),
            config,
            files,
            current: Mutex::default(),
            all: std::sync::Mutex::default(),
            generation: AtomicU64::new(u64::from(std::process::id()) << 32),
            over: Arc::default(),
        }
    }

    /// From now on whatever still has a link, or opens one, ends it.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// The link of new streams ends with its last stream.
    pub async fn close(&self) {
        self.current.lock().await.take();
    }

    /// [`Self::close`], if it is this one.
    pub async fn renew(&self, generation: u64) {
        self.current.lock().await.take_if(|carrier| carrier.generation == generation);
    }

    /// Ends a link with all its streams.
    pub fn kill(&self, generation: u64) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let hung = all.iter().filter_map(Weak::upgrade).find(|one| one.generation == generation);
        if let Some(carrier) = hung {
            tracing::warn!("nothing answers over a link, which is ended");
            carrier.link.kill();
        }
    }

    /// The machine's process; `None` where there is no machine that may be used. Waits for a start that is under way.
    pub async fn machine(&self) -> Result<Option<OwnedFd>, RuntimeError> {
        let _lock = self.change_lock().await?;
        Ok(self.seen().map(|(_, process)| process))
    }

    /// A stream, with the link that it needs. `None` where the client has left meanwhile: a link that is being opened
    /// is the next one's, but none is opened for it.
    pub async fn stream_for(
        &self,
        client: &UnixStream,
    ) -> Result<Option<(Arc<Carrier>, GuestStream)>, String> {
        let mut leaves = std::pin::pin!(left(client));
        // The one that there is may have been lost while nobody used it.
        for _ in 0..2 {
            let current = tokio::select! {
                biased;
                _ = &mut leaves => return Ok(None),
                current = self.current.lock() => current,
            };
            let carrier = self.carrier_of(current).await?;
            let stream = tokio::select! {
                biased;
                _ = &mut leaves => return Ok(None),
                stream = carrier.link.open_stream() => stream,
            };
            if let Some(stream) = stream {
                return Ok(Some((carrier, stream)));
            }
        }
        Err(ENDED_AT_ONCE.into())
    }

    /// A stream, whoever it is for.
    pub async fn stream(&self) -> Result<(Arc<Carrier>, GuestStream), String> {
        for _ in 0..2 {
            let carrier = self.current().await?;
            if let Some(stream) = carrier.link.open_stream().await {
                return Ok((carrier, stream));
            }
        }
        Err(ENDED_AT_ONCE.into())
    }

    /// The link of new streams, opened where it is not there.
    pub async fn current(&self) -> Result<Arc<Carrier>, String> {
        self.carrier_of(self.current.lock().await).await
    }

    async fn carrier_of(
        &self,
        mut current: MutexGuard<'_, Option<Arc<Carrier>>>,
    ) -> Result<Arc<Carrier>, String> {
        if let Some(carrier) = current.as_ref().filter(|carrier| carrier.link.is_alive())
            // Whatever of ours ends a machine takes the note away first.
            && machine::noted(&self.paths).is_some()
        {
            return Ok(Arc::clone(carrier));
        }
        *current = None;
        let carrier = Arc::new(self.open().await?);
        *current = Some(Arc::clone(&carrier));
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|carrier| carrier.strong_count() > 0);
        all.push(Arc::downgrade(&carrier));
        Ok(carrier)
    }

    /// With the lock shared, no stop of ours comes between the look and `msb exec`, which would start it again.
    async fn open(&self) -> Result<Carrier, String> {
        let text = |error: RuntimeError| error.to_string();
        let lock = self.change_lock().await.map_err(text)?;
        self.seen().ok_or("the machine is not there any more")?;
        let (name, program) = (&self.config.name, &self.config.guest_program);
        let link = GuestLink::open(&Handle::current(), &self.msb, name, program);
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let carrier = Carrier { link: link.map_err(text)?, generation, over: Arc::clone(&self.over) };
        let begun = Instant::now();
        let taken =
            if let Ok(taken) = timeout(LOCKED_FOR.min(self.config.patience), carrier.link.taken()).await {
                taken
            } else {
                drop(lock);
                let left = self.config.patience.saturating_sub(begun.elapsed());
                timeout(left, carrier.link.taken()).await.unwrap_or(false)
            };
        if taken {
            return Ok(carrier);
        }
        // Not politely: it may hang.
        carrier.link.kill();
        Err(format!("`msb exec` does not reach the guest: {}", carrier.link.complaint()))
    }

    /// None where the start did not come to its end: nobody told that one what to trust, and nobody may use it. With the
    /// change lock held.
    fn seen(&self) -> Option<(u32, OwnedFd)> {
        Life::read(&self.paths).filter(Life::is_up)?;
        machine::watched(&self.files.home.dir, &self.paths, &self.config.name)
    }

    async fn change_lock(&self) -> Result<Lock, RuntimeError> {
        let path = self.paths.change_lock();
        let taking =
            tokio::task::spawn_blocking(move || Lock::take_existing(&path, LockMode::Shared, "change"));
        let taken = taking.await.map_err(|error| RuntimeError::other(error.to_string()))?;
        taken.map_err(from_state)?.ok_or_else(|| RuntimeError::NoSuchSandbox(self.config.name.clone()))
    }
}
