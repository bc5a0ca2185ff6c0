//! `machine.sock`: what clients may ask of a machine.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandbox_guest_client::{Link, relay};
use sandbox_model::{SecretValues, Status};
use sandbox_wire::{GUEST_PROTOCOL, MachineReply, MachineRequest, MachineState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::ChildStdin;
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use zeroize::Zeroizing;

use super::config::Accel;
use sandbox_guest_client::async_frames::{read_json, write_json};
use sandbox_guest_client::ports::Ports;

/// What the machine is doing; clients that need a guest wait for it to change.
#[derive(Debug, Clone)]
pub enum Phase {
    Starting,
    Running(Link),
    /// Stopping, or failed to boot: nothing more will be served.
    Ending(String),
}

/// An order to end the machine; the sender is told how it went.
#[derive(Debug)]
pub enum Order {
    Stop { grace_millis: u64, sleep: bool, done: oneshot::Sender<Ended> },
    Kill { done: oneshot::Sender<Ended> },
}

/// How a machine ended that was told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Off {
        forced: bool,
        /// Why its memory is not saved, where that was asked for.
        not_asleep: Option<String>,
    },
    Asleep,
}

impl Ended {
    /// The power was taken, and nothing else was asked for.
    pub const fn by_force() -> Self {
        Self::Off { forced: true, not_asleep: None }
    }
}

/// What every client's connection looks at.
#[derive(Debug)]
pub struct Served {
    pub phase: watch::Receiver<Phase>,
    pub orders: mpsc::Sender<Order>,
    pub boot_id: String,
    /// Names the boot that the guest's memory is of, once it is up.
    pub guest_boot: OnceLock<String>,
    pub accel: watch::Receiver<Accel>,
    /// Connections that keep the machine from stopping by itself.
    pub clients: AtomicU32,
    /// The answer to an order has been written.
    pub told: Notify,
    pub ports: Ports,
    /// Where a network bridge that puts in secrets hears of other values.
    pub values: Mutex<Option<ChildStdin>>,
}

/// Counts one client for as long as it lives.
struct Client<'a>(&'a AtomicU32);

impl<'a> Client<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts for ever.
pub async fn serve(listener: UnixListener, served: Arc<Served>) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let served = Arc::clone(&served);
                tokio::spawn(async move {
                    if let Err(error) = client(socket, &served).await {
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

async fn client(mut socket: UnixStream, served: &Served) -> Result<(), sandbox_wire::FrameError> {
    match read_json(&mut socket).await? {
        MachineRequest::Guest => guest(socket, served).await,
        MachineRequest::Hold => {
            let ending = match &*served.phase.borrow() {
                Phase::Ending(reason) => Some(reason.clone()),
                Phase::Starting | Phase::Running(_) => None,
            };
            // Nothing keeps it any more.
            if let Some(reason) = ending {
                return write_json(&mut socket, &MachineReply::Refused { reason }).await;
            }
            let _client = Client::new(&served.clients);
            write_json(&mut socket, &served.ready()).await?;
            // Nothing is expected; the end of the connection is the message.
            let mut rest = [0; 16];
            while socket.read(&mut rest).await? > 0 {}
            Ok(())
        }
        MachineRequest::State => {
            let state = MachineState {
                status: match &*served.phase.borrow() {
                    Phase::Starting => Status::Starting,
                    Phase::Running(_) => Status::Running,
                    Phase::Ending(_) => Status::Draining,
                },
                clients: served.clients.load(Ordering::Relaxed),
                boot_id: served.boot_id.clone(),
                guest_boot: served.guest_boot.get().cloned(),
                accel: *served.accel.borrow(),
            };
            write_json(&mut socket, &MachineReply::State(state)).await
        }
        MachineRequest::Stop { boot_id: Some(meant), .. } if meant != served.boot_id => {
            let reason = "this is another boot than the one to stop".into();
            write_json(&mut socket, &MachineReply::Refused { reason }).await
        }
        MachineRequest::Stop { grace_millis, sleep, .. } => {
            let (done, answer) = oneshot::channel();
            ended(&mut socket, served, Order::Stop { grace_millis, sleep, done }, answer).await
        }
        MachineRequest::Ports { open, close } => {
            let phase = served.phase.borrow().clone();
            let changed = match phase {
                Phase::Running(link) => served.ports.change(&open, &close, &link).await,
                Phase::Starting => Err("the sandbox is starting".into()),
                Phase::Ending(reason) => Err(reason),
            };
            let reply = match changed {
                Ok(()) => MachineReply::Ports,
                Err(reason) => MachineReply::Refused { reason },
            };
            write_json(&mut socket, &reply).await
        }
        MachineRequest::Secrets { values } => {
            let reply = match served.change_values(&values).await {
                Ok(()) => MachineReply::Secrets,
                Err(reason) => MachineReply::Refused { reason },
            };
            write_json(&mut socket, &reply).await
        }
        MachineRequest::Kill => {
            let (done, answer) = oneshot::channel();
            ended(&mut socket, served, Order::Kill { done }, answer).await
        }
    }
}

async fn ended(
    socket: &mut UnixStream,
    served: &Served,
    order: Order,
    answer: oneshot::Receiver<Ended>,
) -> Result<(), sandbox_wire::FrameError> {
    if served.orders.send(order).await.is_ok()
        && let Ok(ended) = answer.await
    {
        let reply = match ended {
            Ended::Asleep => MachineReply::Stopped { forced: false, asleep: true, not_asleep: None },
            Ended::Off { forced, not_asleep } => MachineReply::Stopped { forced, asleep: false, not_asleep },
        };
        let written = write_json(socket, &reply).await;
        served.told.notify_one();
        written?;
    }
    // The connection stays open until the process is gone: that, and nothing earlier, is "stopped".
    std::future::pending().await
}

async fn guest(mut socket: UnixStream, served: &Served) -> Result<(), sandbox_wire::FrameError> {
    let _client = Client::new(&served.clients);
    let mut phase = served.phase.clone();
    let ready = phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await.map(|phase| phase.clone());
    let stream = match ready {
        Ok(Phase::Running(link)) => link.open().await,
        Ok(Phase::Ending(reason)) => return write_json(&mut socket, &MachineReply::Refused { reason }).await,
        Ok(Phase::Starting) | Err(_) => None,
    };
    let Some(stream) = stream else {
        let reason = "the guest link is gone".into();
        return write_json(&mut socket, &MachineReply::Refused { reason }).await;
    };
    write_json(&mut socket, &served.ready()).await?;
    relay(socket, stream).await?;
    Ok(())
}

impl Served {
    /// Answers who ordered the end, and waits until the answer is on its way.
    pub async fn tell(&self, done: Option<oneshot::Sender<Ended>>, ended: Ended) {
        if let Some(done) = done
            && done.send(ended).is_ok()
        {
            let _ = tokio::time::timeout(Duration::from_secs(1), self.told.notified()).await;
        }
    }

    async fn change_values(&self, values: &SecretValues) -> Result<(), String> {
        let mut pipe = self.values.lock().await;
        let pipe = pipe.as_mut().ok_or("the sandbox was not started with secrets")?;
        let text = Zeroizing::new(serde_json::to_vec(values).map_err(|error| error.to_string())?);
        let written = async {
            pipe.write_all(&text).await?;
            pipe.flush().await
        };
        written.await.map_err(|error| format!("the network bridge does not take the secrets: {error}"))
    }

    fn ready(&self) -> MachineReply {
        MachineReply::Ready {
            guest_protocol: GUEST_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            boot_id: self.boot_id.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer_in(phase: Phase) -> MachineReply {
        serde_json::from_value(said_in(phase, &MachineRequest::Hold).await).unwrap()
    }

    /// The answer as it is sent.
    async fn said_in(phase: Phase, request: &MachineRequest) -> serde_json::Value {
        let served = Served {
            phase: watch::channel(phase).1,
            orders: mpsc::channel(1).0,
            boot_id: "first".into(),
            guest_boot: OnceLock::new(),
            accel: watch::channel(Accel::Tcg).1,
            clients: AtomicU32::new(0),
            told: Notify::new(),
            ports: Ports::default(),
            values: Mutex::default(),
        };
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        write_json(&mut ours, request).await.unwrap();
        let talk = async {
            let reply: serde_json::Value = read_json(&mut ours).await.unwrap();
            drop(ours);
            reply
        };
        let (reply, served) = tokio::join!(talk, client(theirs, &served));
        served.unwrap();
        reply
    }

    /// A keeper of an earlier version takes no answer without them.
    #[tokio::test]
    async fn what_was_once_mandatory_is_still_sent() {
        let ready = said_in(Phase::Starting, &MachineRequest::Hold).await;
        assert_eq!(ready["boot_id"], "first", "{ready}");
        let state = said_in(Phase::Starting, &MachineRequest::State).await;
        assert_eq!(state["clients"], 0, "{state}");
        assert_eq!(state["boot-id"], "first", "{state}");
    }

    #[tokio::test]
    async fn one_that_is_ending_is_not_held() {
        assert!(matches!(answer_in(Phase::Starting).await, MachineReply::Ready { .. }));
        let ending = answer_in(Phase::Ending("the sandbox is stopping".into())).await;
        assert!(matches!(ending, MachineReply::Refused { reason } if reason == "the sandbox is stopping"));
    }
}
