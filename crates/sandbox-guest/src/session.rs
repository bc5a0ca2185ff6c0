use std::sync::Arc;

use futures::AsyncWriteExt;
use sandbox_wire::{FrameError, GuestReply, GuestRequest};

use crate::console::say;
use crate::framed::{FrameReader, send};
use crate::guest::Guest;
use crate::stream::SessionStream;
use crate::{boot, clock, dial, exec, kept, shutdown, sleep, ssh_agent};

/// One stream from its first frame to its end.
pub async fn serve(stream: SessionStream, guest: Arc<Guest>) {
    let mut frames = FrameReader::new(stream);
    let outcome = match frames.next().await {
        Ok(Some(request)) => answer(request, frames, &guest).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    // A client that goes away in the middle shows up as an I/O error: nothing to tell anybody.
    if let Err(error @ (FrameError::Malformed(_) | FrameError::TooLarge(_))) = outcome {
        say(format_args!("a stream was dropped: {error}"));
    }
}

async fn answer(request: GuestRequest, frames: FrameReader, guest: &Arc<Guest>) -> Result<(), FrameError> {
    let reply = match request {
        GuestRequest::Boot(config) => boot::answer(*config, guest).await,
        GuestRequest::Exec(request) => return exec::answer(*request, frames, guest).await,
        GuestRequest::ListSessions => return kept::list(frames, guest).await,
        GuestRequest::Attach { session, size } => return kept::attach(session, size, frames, guest).await,
        GuestRequest::EndSession { session } => return kept::end(session, frames, guest).await,
        GuestRequest::Dial { port } => return dial::answer(port, frames).await,
        GuestRequest::AcceptSshAgent => return ssh_agent::answer(frames, guest).await,
        GuestRequest::SetClock { unix_nanos } => clock::answer(unix_nanos, guest).await,
        GuestRequest::Sleep { token } => return sleep::answer(token, frames, guest).await,
        GuestRequest::Shutdown { grace_millis } => {
            return shutdown::answer(grace_millis, frames, guest).await;
        }
    };
    let mut stream = frames.stream().clone();
    send(&mut stream, &reply).await?;
    Ok(stream.close().await?)
}

/// A reply from the outcome of a blocking action.
pub async fn blocking<E: std::fmt::Display + Send + 'static>(
    action: impl FnOnce() -> Result<(), E> + Send + 'static,
) -> GuestReply {
    match tokio::task::spawn_blocking(action).await {
        Ok(Ok(())) => GuestReply::Ok,
        Ok(Err(error)) => GuestReply::Failed(error.to_string()),
        Err(error) => GuestReply::Failed(error.to_string()),
    }
}
