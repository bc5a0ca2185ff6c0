//! `link.sock`: streams for whoever connects.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_guest_client::async_frames::{read_json, write_json};
use sandbox_guest_client::ports::{Ports, Streams};
use sandbox_guest_client::{GuestStream, relay};
use sandbox_runtime::RuntimeError;
use sandbox_wire::{FrameError, GUEST_PROTOCOL, LinkReply, LinkRequest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::LinkConfig;
use super::carriers::{Carrier, Carriers};
use crate::files::Files;
use crate::machine;

struct Served {
    carriers: Carriers,
    rests_after: Duration,
    streams: AtomicUsize,
    used: Mutex<Instant>,
    ports: Ports,
    end: Notify,
}

/// Serves until the machine ends, somebody says so, or there is no way into the guest.
pub async fn serve(config: LinkConfig, files: Files, listener: StdListener) -> Result<(), RuntimeError> {
    let listener = UnixListener::from_std(listener)?;
    let served = Arc::new(Served {
        rests_after: config.rests_after,
        carriers: Carriers::new(config, files),
        streams: AtomicUsize::new(0),
        used: Mutex::new(Instant::now()),
        ports: Ports::default(),
        end: Notify::new(),
    });
    let mut live = std::pin::pin!(served.live());
    let ended = tokio::select! {
        () = accept(&listener, &served) => Ok(()),
        ended = &mut live => ended,
        () = served.end.notified() => Ok(()),
    };
    served.carriers.end();
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
        let (carrier, stream) = self.0.carriers.stream().await.map_err(io::Error::other)?;
        Ok((stream, (carrier, counted)))
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
        let Some(process) = self.carriers.machine().await? else { return Ok(()) };
        let end = tokio::task::spawn_blocking(move || machine::wait_for_end(&process));
        let used = async {
            // For whoever comes first.
            if let Err(problem) = self.carriers.current().await {
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
            let (after, used) = (self.rests_after, self.used());
            sleep_until(used + after).await;
            if self.streams.load(Ordering::Relaxed) > 0 {
                self.touch();
            } else if self.used() == used {
                self.carriers.close().await;
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
                match self.carriers.stream_for(&socket).await {
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
                self.carriers.renew(generation).await;
                Ok(())
            }
            LinkRequest::Kill { generation } => {
                self.carriers.kill(generation);
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
}
