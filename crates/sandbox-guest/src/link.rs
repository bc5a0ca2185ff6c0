use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use futures::{AsyncRead, AsyncWrite};
use sandbox_wire::TOKEN;
use yamux::{Config, Connection, Mode};

use crate::console::say;
use crate::guest::Guest;
use crate::session;
use crate::stream::SessionStream;

/// Streams open at the same time. One more ends the link, so the host must stay below.
const MAX_STREAMS: usize = 1024;
/// What all receive windows may grow to together: 256 KiB for each stream and 64 MiB to share.
const MAX_WINDOWS: usize = MAX_STREAMS * yamux::DEFAULT_CREDIT as usize + 64 * 1024 * 1024;

/// Larger frames than yamux' own: each costs an emulated guest two exits.
const FRAME: usize = 64 * 1024;

/// Both ends of the link use the same limits.
pub fn link_config() -> Config {
    let mut config = Config::default();
    // In this order: each setter checks that the other value fits.
    config.set_max_num_streams(MAX_STREAMS);
    config.set_max_connection_receive_window(Some(MAX_WINDOWS));
    config.set_split_send_size(FRAME);
    config
}

/// Why [`serve`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEnd {
    /// The host closed the link or spoke nonsense. All sessions end with it.
    Lost,
    /// The memory is about to be saved: wait for the wake call with this token. All sessions end.
    Asleep([u8; TOKEN]),
    /// A shutdown was asked for and is done: cut the power.
    PowerOff,
}

/// Like [`link_config`], but no stream has more than its first 256 KiB on the way: for a carrier that breaks
/// when it has to keep what the other side does not read yet.
pub fn narrow_link_config() -> Config {
    let mut config = link_config();
    config.set_max_connection_receive_window(Some(MAX_STREAMS * yamux::DEFAULT_CREDIT as usize));
    config
}

/// Serves one link until it ends: every stream that the host opens becomes a session of its own.
pub async fn serve(io: impl AsyncRead + AsyncWrite + Unpin, guest: Arc<Guest>) -> LinkEnd {
    serve_with(io, guest, link_config()).await
}

/// [`serve`] with limits of the carrier's.
pub async fn serve_with(
    io: impl AsyncRead + AsyncWrite + Unpin,
    guest: Arc<Guest>,
    config: Config,
) -> LinkEnd {
    let mut connection = Connection::new(io, config, Mode::Server);
    let mut power_off = std::pin::pin!(guest.power_off.notified());
    let mut falls_asleep = std::pin::pin!(guest.falls_asleep.notified());
    poll_fn(|cx| {
        if power_off.as_mut().poll(cx).is_ready() {
            return Poll::Ready(LinkEnd::PowerOff);
        }
        if falls_asleep.as_mut().poll(cx).is_ready()
            && let Some(token) = guest.take_token()
        {
            return Poll::Ready(LinkEnd::Asleep(token));
        }
        loop {
            match connection.poll_next_inbound(cx) {
                Poll::Ready(Some(Ok(stream))) => {
                    tokio::spawn(session::serve(SessionStream::new(stream), Arc::clone(&guest)));
                }
                Poll::Ready(Some(Err(error))) => {
                    say(format_args!("the link to the host failed: {error}"));
                    return Poll::Ready(LinkEnd::Lost);
                }
                Poll::Ready(None) => return Poll::Ready(LinkEnd::Lost),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}
