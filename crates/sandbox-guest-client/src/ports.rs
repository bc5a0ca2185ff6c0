//! Ports of the host that lead into the guest, over the guest link: they need no network card, and reach what
//! listens on the guest's loopback.

use std::io::ErrorKind;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use sandbox_model::PortForward;
use sandbox_wire::{GuestReply, GuestRequest};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;

use crate::async_frames::{read_message, write_message};
use crate::link::{GuestStream, Link};

const BUFFER: usize = 64 << 10;
/// Connections at once, through all ports: whoever else may connect, commands still have a way into the guest.
const MAX_CONNECTIONS: usize = 512;
/// From the connection to the guest's answer, which a boot may come before.
const DIALS_WITHIN: Duration = Duration::from_mins(1);

/// A listener, and the port that it is for.
pub type Published = (StdListener, PortForward);

/// Where the streams of connections come from.
pub trait Streams: Clone + Send + Sync + 'static {
    /// What has to live for as long as a stream.
    type Kept: Send;

    /// A new stream to the guest program.
    fn open(&self) -> impl Future<Output = std::io::Result<(GuestStream, Self::Kept)>> + Send;
}

impl Streams for Link {
    type Kept = ();

    async fn open(&self) -> std::io::Result<(GuestStream, ())> {
        let stream = Self::open(self).await;
        Ok((stream.ok_or(ErrorKind::BrokenPipe)?, ()))
    }
}

/// Takes every port, or none: whoever asked for one must not find out later that it leads elsewhere.
pub fn bind(ports: &[PortForward]) -> Result<Vec<Published>, String> {
    let mut published = Vec::new();
    for port in ports {
        for address in port.addresses() {
            match StdListener::bind(address) {
                Ok(listener) => published.push((listener, *port)),
                // A host without IPv6 has only one loopback.
                Err(error)
                    if port.bind.is_none()
                        && address.is_ipv6()
                        && matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::Unsupported) => {}
                Err(error) => return Err(format!("port {address} cannot be published: {error}")),
            }
        }
    }
    Ok(published)
}

/// The ports that lead into a running guest.
#[derive(Debug)]
pub struct Ports {
    open: Mutex<Vec<Open>>,
    places: Arc<Semaphore>,
}

impl Default for Ports {
    fn default() -> Self {
        Self { open: Mutex::default(), places: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }
}

#[derive(Debug)]
struct Open {
    port: PortForward,
    /// One for each address; a connection that was accepted is a task of its own.
    accepting: Vec<JoinHandle<()>>,
}

impl Ports {
    /// Accepts for as long as this process lives, or until the port is closed. Whoever connected before waits in
    /// the listener.
    pub async fn serve(&self, ports: &[PortForward], published: Vec<Published>, streams: &impl Streams) {
        let mut all = self.open.lock().await;
        all.extend(ports.iter().map(|port| Open { port: *port, accepting: Vec::new() }));
        for (listener, port) in published {
            let (streams, places) = (streams.clone(), Arc::clone(&self.places));
            let accepting = tokio::spawn(async move {
                if let Err(error) = accept(listener, port.guest, &streams, &places).await {
                    tracing::warn!("the port to {} in the guest is closed: {error}", port.guest);
                }
            });
            if let Some(open) = all.iter_mut().find(|open| open.port == port) {
                open.accepting.push(accepting);
            }
        }
    }

    /// Closes some and opens others. Where one cannot be opened, all are as they were.
    pub async fn change(
        &self,
        open: &[PortForward],
        close: &[PortForward],
        streams: &impl Streams,
    ) -> Result<(), String> {
        let closed = self.close(close).await;
        let open: Vec<PortForward> = {
            let all = self.open.lock().await;
            open.iter().filter(|port| !all.iter().any(|known| known.port == **port)).copied().collect()
        };
        let (ports, bound, problem) = match bind(&open) {
            Ok(bound) => (open, bound, None),
            Err(problem) => match bind(&closed) {
                Ok(again) => (closed, again, Some(problem)),
                Err(error) => {
                    tracing::warn!("ports that were to stay are gone: {error}");
                    (Vec::new(), Vec::new(), Some(format!("{problem}; and {error}")))
                }
            },
        };
        self.serve(&ports, bound, streams).await;
        problem.map_or(Ok(()), Err)
    }

    /// Closes all, so that whoever hears of the machine's end can have them: its process ends a moment later.
    /// Connections go on until then.
    pub async fn end(&self) {
        let all: Vec<PortForward> = self.open.lock().await.iter().map(|open| open.port).collect();
        self.close(&all).await;
    }

    /// Whether there is none.
    pub async fn is_empty(&self) -> bool {
        self.open.lock().await.is_empty()
    }

    /// Those that were open.
    async fn close(&self, ports: &[PortForward]) -> Vec<PortForward> {
        let mut all = self.open.lock().await;
        let (gone, stay) = std::mem::take(&mut *all).into_iter().partition(|open| ports.contains(&open.port));
        *all = stay;
        let gone: Vec<Open> = gone;
        let mut closed = Vec::new();
        for open in gone {
            for accepting in open.accepting {
                accepting.abort();
                // Its listener is closed once it has ended.
                let _ = accepting.await;
            }
            closed.push(open.port);
        }
        closed
    }
}

/// Whoever comes when all places are taken waits, and those after him in the listener.
async fn accept(
    listener: StdListener,
    port: u16,
    streams: &impl Streams,
    places: &Arc<Semaphore>,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let place = Arc::clone(places).acquire_owned().await.map_err(std::io::Error::other)?;
                let streams = streams.clone();
                tokio::spawn(async move {
                    let _place = place;
                    if let Err(error) = forward(socket, port, &streams).await {
                        tracing::debug!("a connection to port {port} in the guest ended: {error}");
                    }
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept for port {port} in the guest: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Nobody listening in the guest ends the connection, as it would on one machine.
async fn forward(mut socket: TcpStream, port: u16, streams: &impl Streams) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let dialled = tokio::time::timeout(DIALS_WITHIN, dialled(port, streams)).await;
    let (mut stream, _kept) = dialled.map_err(|_| ErrorKind::TimedOut)??;
    copy_bidirectional_with_sizes(&mut socket, &mut stream, BUFFER, BUFFER).await.map(drop)
}

async fn dialled<S: Streams>(port: u16, streams: &S) -> std::io::Result<(GuestStream, S::Kept)> {
    let (mut stream, kept) = streams.open().await?;
    let frame = std::io::Error::other::<sandbox_wire::FrameError>;
    write_message(&mut stream, &GuestRequest::Dial { port }).await.map_err(frame)?;
    match read_message(&mut stream).await.map_err(frame)? {
        GuestReply::Ok => Ok((stream, kept)),
        GuestReply::Failed(problem) => Err(std::io::Error::other(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_named_and_a_free_one_is_taken_on_both_loopbacks() {
        let taken = StdListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let port = |bind| PortForward { bind, host: address.port(), guest: 80 };
        let error = bind(&[port(None)]).unwrap_err();
        assert!(error.starts_with(&format!("port {address} cannot be published: ")), "{error}");
        drop(taken);
        let published = bind(&[port(None)]).unwrap();
        assert_eq!(published[0].0.local_addr().unwrap(), address);
        assert!(published.iter().all(|(listener, guest)| {
            guest.guest == 80 && listener.local_addr().unwrap().ip().is_loopback()
        }));
    }

    #[tokio::test]
    async fn ports_are_free_once_their_end_is_told() {
        let free = StdListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = PortForward { bind: None, host: address.port(), guest: 80 };
        let (ours, _theirs) = tokio::net::UnixStream::pair().unwrap();
        let (link, _carried) = Link::new(ours, crate::Window::Growing);
        let ports = Ports::default();
        ports.serve(&[port], bind(&[port]).unwrap(), &link).await;
        let _connected = TcpStream::connect(address).await.unwrap();
        bind(&[port]).unwrap_err();
        ports.end().await;
        bind(&[port]).unwrap();
    }
}
