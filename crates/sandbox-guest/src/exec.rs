//! One command: found, started, fed, listened to, and ended with its client.
//!
//! ```text
//! client ──ExecInput──► input ──► stdin pipe │ terminal ──► command
//! client ◄─ExecOutput── pump(s) ◄── pipes │ terminal ◄────────┘
//! ```
//!
//! The client keeps its half of the stream open until `Exited`: the end of that half, like a reset, means
//! that the client is gone. The end of the command's input is a frame, [`sandbox_wire::ExecInput::Eof`].

mod accounts;
mod environment;
mod hangup;
mod input;
mod program;
mod pump;
mod spawn;
mod terminal;

pub(crate) use accounts::Account;
pub(crate) use hangup::hang_up;
pub(crate) use input::Input;
pub(crate) use pump::Rest;
pub(crate) use spawn::Process;
pub(crate) use terminal::{Screen, Terminal};

use std::sync::Arc;

use futures::AsyncWriteExt;
use sandbox_model::ExitStatus;
use sandbox_wire::{ExecOutput, ExecRequest, FrameError};
use tokio::sync::{Mutex, watch};

use crate::framed::{FrameReader, send};
use crate::guest::Guest;
use crate::kept;
use crate::ssh_agent;
use crate::stream::SessionStream;
use spawn::Refusal;

/// All pumps of a session write to one stream, whole frames at a time.
type Writer = Arc<Mutex<SessionStream>>;

/// Serves [`sandbox_wire::GuestRequest::Exec`] until the command or its client is gone. Errors are the
/// stream's.
pub async fn answer(
    request: ExecRequest,
    mut frames: FrameReader,
    guest: &Arc<Guest>,
) -> Result<(), FrameError> {
    let mut stream = frames.stream().clone();
    tokio::select! {
        biased;
        () = ssh_agent::wait_for(&request.env) => {}
        // Nobody is there whose command it would be.
        () = frames.gone() => return Ok(()),
    }
    let mut process = match start(&request, guest) {
        Ok(process) => process,
        Err(Refusal { code, message }) => {
            send(&mut stream, &ExecOutput::Failed { code, message }).await?;
            return Ok(stream.close().await?);
        }
    };
    if let (Some(keep), Some(size)) = (&request.keep, request.tty.filter(|_| !request.detach)) {
        return match guest.kept.begin(process, keep, &request, size) {
            Ok((session, client)) => kept::attended(&session, client, frames, guest).await,
            Err(process) => {
                let message = "there are too many sessions in the sandbox".into();
                send(&mut stream, &ExecOutput::Failed { code: 1, message }).await?;
                hang_up(*process).await;
                Ok(stream.close().await?)
            }
        };
    }
    let started = send(&mut stream, &ExecOutput::Started { pid: process.pid(), session: None }).await;
    if request.detach {
        // Its end is nobody's business, but it has to be reaped.
        tokio::spawn(async move { process.child.wait().await });
        started?;
        return Ok(stream.close().await?);
    }
    let Some(status) = attend(&mut process, frames, &stream).await else {
        hang_up(process).await;
        return Ok(());
    };
    send(&mut stream, &ExecOutput::Exited(status)).await?;
    Ok(stream.close().await?)
}

/// Runs `true` for nobody. The first command after a boot or a wake waits for what a fresh machine has at hand of
/// neither kernel nor C library, and whoever sends that command is not there yet.
pub fn rehearse(guest: &Arc<Guest>) {
    let guest = Arc::clone(guest);
    tokio::spawn(async move {
        let request = ExecRequest {
            argv: vec![b"true".into()],
            env: Vec::new(),
            cwd: "/".into(),
            user: String::new(),
            tty: None,
            detach: true,
            keep: None,
        };
        let begun = tokio::task::spawn_blocking(move || start(&request, &guest)).await;
        if let Ok(Ok(mut process)) = begun {
            let _ = process.child.wait().await;
        }
    });
}

fn start(request: &ExecRequest, guest: &Guest) -> Result<Process, Refusal> {
    if guest.stopping() {
        return Err(Refusal::new(1, "the sandbox is shutting down"));
    }
    let settings = guest.settings().ok_or_else(|| Refusal::new(1, "the sandbox has not booted"))?;
    spawn::spawn(request, settings)
}

/// Runs a session until the command has ended and all its output is sent; `None` when the client went away
/// before.
async fn attend(process: &mut Process, frames: FrameReader, stream: &SessionStream) -> Option<ExitStatus> {
    let writer: Writer = Arc::new(Mutex::new(stream.clone()));
    let (tell_exit, exited) = watch::channel(false);
    let input = Input::new(process);
    let outputs = process.take_outputs();
    let child = &mut process.child;
    let command = async {
        let status = async {
            let status = child.wait().await;
            tell_exit.send_replace(true);
            Ok(status?)
        };
        let (status, ()) = tokio::try_join!(status, pump::all(outputs, &writer, exited))?;
        Ok::<_, FrameError>(exit_status(status))
    };
    tokio::select! {
        // A client that leaves right after the last byte of a finished command has lost nothing.
        biased;
        status = command => status.ok(),
        () = input.run(frames) => None,
    }
}

pub(crate) fn exit_status(status: std::process::ExitStatus) -> ExitStatus {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Code(1),
    }
}
