//! Commands that outlive their clients, each on a terminal of its own.
//!
//! ```text
//!              ┌────────────────────── Session ──────────────────────┐
//! command ──► terminal ──► Picture (screen, history, modes) ──► Clients ──► one queue each ──► ExecOutput
//!          ◄── terminal ◄────────── typed by any of them ◄────────────────────────────────── ExecInput
//! ```
//!
//! A client that goes, for whatever reason, leaves the command as it is; a saved memory has all of this in
//! it. A client that comes gets what brings its terminal to the picture. The terminal is as large as the
//! smallest client's, so that nobody's is garbled. The command waits a moment for a client that does not
//! read, then leaves it behind: it is drawn anew when it reads again.

mod clients;
mod end;
mod modes;
mod numbers;
mod picture;
mod registry;
mod report;
mod session;
mod whole;

use std::sync::Arc;

use futures::AsyncWriteExt;
use sandbox_model::TermSize;
use sandbox_wire::{ExecOutput, FrameError, GuestSessionEnd, GuestSessions};

use crate::framed::{FrameReader, send};
use crate::guest::Guest;

pub use registry::Registry;
pub use session::Session;

/// Serves [`sandbox_wire::GuestRequest::ListSessions`].
pub async fn list(frames: FrameReader, guest: &Arc<Guest>) -> Result<(), FrameError> {
    let sessions = guest.kept.all().iter().map(|session| session.describe()).collect();
    let mut stream = frames.stream().clone();
    send(&mut stream, &GuestSessions(sessions)).await?;
    Ok(stream.close().await?)
}

/// Serves [`sandbox_wire::GuestRequest::Attach`] until the command or its client is gone.
pub async fn attach(
    id: u32,
    size: TermSize,
    frames: FrameReader,
    guest: &Arc<Guest>,
) -> Result<(), FrameError> {
    let Some(session) = guest.kept.find(id) else {
        let mut stream = frames.stream().clone();
        let message = format!("there is no session {id}");
        send(&mut stream, &ExecOutput::Failed { code: 1, message }).await?;
        return Ok(stream.close().await?);
    };
    let client = session.join(size);
    attended(&session, client, frames, guest).await
}

/// Serves [`sandbox_wire::GuestRequest::EndSession`]; a session that does not end is not forgotten.
pub async fn end(id: u32, frames: FrameReader, guest: &Arc<Guest>) -> Result<(), FrameError> {
    let answer = match guest.kept.find(id) {
        None => GuestSessionEnd::NoSuchSession,
        Some(session) => match session.end().await {
            Ok(end) => {
                guest.kept.forget(id);
                GuestSessionEnd::Ended(end)
            }
            Err(left) => GuestSessionEnd::Failed(format!("processes {left:?} do not end")),
        },
    };
    let mut stream = frames.stream().clone();
    send(&mut stream, &answer).await?;
    Ok(stream.close().await?)
}

/// A client's stay, until it or the command is gone.
pub async fn attended(
    session: &Arc<Session>,
    client: u64,
    frames: FrameReader,
    guest: &Arc<Guest>,
) -> Result<(), FrameError> {
    let _stay = Stay { session, client };
    let mut stream = frames.stream().clone();
    send(&mut stream, &ExecOutput::Started { pid: session.pid(), session: Some(session.id) }).await?;
    let input = session.input(client);
    let gone = async {
        match input {
            Some(input) => input.run(frames).await,
            // Nobody is left to be told anything; a client that goes shows when it is written to.
            None => std::future::pending().await,
        }
    };
    let status = tokio::select! {
        biased;
        status = session.output(client, &mut stream) => status?,
        () = gone => return Ok(()),
    };
    send(&mut stream, &ExecOutput::Exited(status)).await?;
    guest.kept.forget(session.id);
    Ok(stream.close().await?)
}

/// A client is in its session for as long as this lives.
struct Stay<'a> {
    session: &'a Session,
    client: u64,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.session.leave(self.client);
    }
}
