//! `link.sock`: streams for whoever connects.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use sandbox_guest_client::async_frames::{read_json, write_json};
use sandbox_guest_client::ports::{Ports, Streams};
use sandbox_guest_client::{GuestStream, left, relay};
use sandbox_runtime::RuntimeError;
use sandbox_state::{Lock, LockMode};
use sandbox_wire::{FrameError, GUEST_PROTOCOL, LinkReply, LinkRequest};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::time::{Instant, sleep_until, timeout};

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
struct Carrier {
    link: GuestLink,
    generation: u64,
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

struct Served {
    config: LinkConfig,
    files: Files,
    paths: SandboxPaths,
    msb: Msb,
    /// The link of new streams.
    current: Mutex<Option<Arc<Carrier>>>,
    /// All that are there, for as long as anything needs them.
    carriers: std::sync::Mutex<Vec<Weak<Carrier>>>,
    /// Of the next link. Those of another link process are others.
    generation: AtomicU64,
    streams: AtomicUsize,
    used: std::sync::Mutex<Instant>,
    ports: Ports,
    end: Notify,
    over: Arc<AtomicBool>,
}

/// Serves until the machine ends, somebody says so, or there is no way into the guest.
pub async fn serve(config: LinkConfig, files: Files, listener: StdListener) -> Result<(), RuntimeError> {
    let listener = UnixListener::from_std(listener)?;
    let patience = Patience { work: config.patience, ..Patience::default() };
    let served = Arc::new(Served {
        paths: files.sandbox(&config.name),
        msb: Msb::new(config.msb.clone(), &files, patience),
        config,
        files,
        current: Mutex::default(),
        carriers: std::sync::Mutex::default(),
        generation: AtomicU64::new(u64::from(std::process::id()) << 32),
        streams: AtomicUsize::new(0),
        used: std::sync::Mutex::new(Instant::now()),
        ports: Ports::default(),
        end: Notify::new(),
        over: Arc::default(),
    });
    let mut live = std::pin::pin!(served.live());
    let ended = tokio::select! {
        () = accept(&listener, &served) => Ok(()),
        ended = &mut live => ended,
        () = served.end.notified() => Ok(()),
    };
    // From now on whatever still has a link, or opens one, ends it.
    served.over.store(true, Ordering::Relaxed);
    // Before the lock is free, or somebody who told it to leave goes on: they may open them again.
    served.ports.end().await;
    ended
}

/// Accepts for ever.
async fn accept(listener: &UnixListener, served: &Arc<Served>) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let served = Arc::clone(served);
                tokio::spawn(async move {
                    if let Err(error) = served.client(socket).await {
                        tracing::debug!("a client's connection ended: {error}");
                    }
                });
            }
            Err(error) => {
                // Out of descriptors: others will be closed; accepting again at once would only spin.
                tracing::warn!("cannot accept a client: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One more stream, for as long as this value lives.
struct Counted(Arc<Served>);

impl Counted {
    fn new(served: &Arc<Served>) -> Self {
        served.streams.fetch_add(1, Ordering::Relaxed);
        served.touch();
        Self(Arc::clone(served))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

/// For connections through ports.
#[derive(Clone)]
struct PortStreams(Arc<Served>);

impl Streams for PortStreams {
    type Kept = (Arc<Carrier>, Counted);

    async fn open(&self) -> io::Result<(GuestStream, Self::Kept)> {
        let counted = Counted::new(&self.0);
        // The link that there is may have been lost while nobody used it.
        for _ in 0..2 {
            let carrier = self.0.carrier().await.map_err(io::Error::other)?;
            if let Some(stream) = carrier.link.open_stream().await {
                return Ok((stream, (carrier, counted)));
            }
        }
        Err(io::Error::other(ENDED_AT_ONCE))
    }
}

impl Served {
    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the machine has ended, or is not there.
    async fn live(&self) -> Result<(), RuntimeError> {
        // A start that is under way ends with this lock.
        let seen = {
            let _lock = self.change_lock().await?;
            self.machine()
        };
        let Some((_, process)) = seen else { return Ok(()) };
        let end = tokio::task::spawn_blocking(move || machine::wait_for_end(&process));
        let used = async {
            // For whoever comes first.
            if let Err(problem) = self.carrier().await {
                tracing::warn!("{problem}");
                // Whoever comes through a port may have more luck.
                if self.ports.is_empty().await {
                    return;
                }
            }
            self.rest().await;
        };
        tokio::select! {
            ended = end => ended.map_err(|error| RuntimeError::other(error.to_string()))?,
            () = used => Ok(()),
        }
    }

    /// Closes a link that nobody uses.
    async fn rest(&self) {
        loop {
            let (after, used) = (self.config.rests_after, self.used());
            sleep_until(used + after).await;
            if self.streams.load(Ordering::Relaxed) > 0 {
                self.touch();
            } else if self.used() == used {
                self.current.lock().await.take();
                self.touch();
            }
        }
    }

    async fn client(self: &Arc<Self>, mut socket: UnixStream) -> Result<(), FrameError> {
        match read_json(&mut socket).await? {
            LinkRequest::Stream { guest_protocol } => {
                let here = LinkReply::Here {
                    guest_protocol: GUEST_PROTOCOL,
                    version: env!("CARGO_PKG_VERSION").into(),
                };
                write_json(&mut socket, &here).await?;
                if guest_protocol != GUEST_PROTOCOL {
                    return self.refuse(&mut socket, guest_protocol).await;
                }
                let _counted = Counted::new(self);
                match self.stream(&socket).await {
                    Ok(None) => Ok(()),
                    Ok(Some((carrier, stream))) => {
                        let generation = carrier.generation;
                        write_json(&mut socket, &LinkReply::Ready { generation }).await?;
                        Ok(relay(socket, stream).await?)
                    }
                    Err(reason) => {
                        tracing::warn!("{reason}");
                        write_json(&mut socket, &LinkReply::Refused { reason }).await?;
                        // It is alone: others still have streams of an earlier link, or may come through a port.
                        if self.streams.load(Ordering::Relaxed) == 1 && self.ports.is_empty().await {
                            self.end.notify_one();
                        }
                        Ok(())
                    }
                }
            }
            LinkRequest::Renew { generation } => {
                tracing::warn!("something does not answer; what comes next gets another link");
                self.current.lock().await.take_if(|carrier| carrier.generation == generation);
                Ok(())
            }
            LinkRequest::Kill { generation } => {
                let carriers = self.carriers.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let hung = carriers.iter().filter_map(Weak::upgrade).find(|one| one.generation == generation);
                if let Some(carrier) = hung {
                    tracing::warn!("nothing answers over a link, which is ended");
                    carrier.link.kill();
                }
                Ok(())
            }
            LinkRequest::Ports { open, close } => {
                let changed = self.ports.change(&open, &close, &PortStreams(Arc::clone(self))).await;
                let reply =
                    changed.map_or_else(|reason| LinkReply::Refused { reason }, |()| LinkReply::Ports);
                write_json(&mut socket, &reply).await
            }
            LinkRequest::Leave => {
                self.end.notify_one();
                // The connection stays open until the process is gone.
                std::future::pending().await
            }
        }
    }

    /// A client of another protocol is none of ours. To a newer one, this process makes room when nobody uses it.
    async fn refuse(&self, socket: &mut UnixStream, guest_protocol: u32) -> Result<(), FrameError> {
        let reason = format!("the guest program speaks protocol {GUEST_PROTOCOL}, not {guest_protocol}");
        write_json(socket, &LinkReply::Refused { reason }).await?;
        if guest_protocol > GUEST_PROTOCOL && self.streams.load(Ordering::Relaxed) == 0 {
            self.end.notify_one();
        }
        Ok(())
    }

    /// A stream, with the link that it needs. `None` where the client has left meanwhile: a link that is being opened
    /// is the next one's, but none is opened for it.
    async fn stream(&self, client: &UnixStream) -> Result<Option<(Arc<Carrier>, GuestStream)>, String> {
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

    async fn carrier(&self) -> Result<Arc<Carrier>, String> {
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
        let mut carriers = self.carriers.lock().unwrap_or_else(PoisonError::into_inner);
        carriers.retain(|carrier| carrier.strong_count() > 0);
        carriers.push(Arc::downgrade(&carrier));
        Ok(carrier)
    }

    /// With the lock shared, no stop of ours comes between the look and `msb exec`, which would start it again.
    async fn open(&self) -> Result<Carrier, String> {
        let text = |error: RuntimeError| error.to_string();
        let lock = self.change_lock().await.map_err(text)?;
        self.machine().ok_or("the machine is not there any more")?;
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
    fn machine(&self) -> Option<(u32, OwnedFd)> {
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
