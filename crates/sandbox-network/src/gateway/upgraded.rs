//! A connection that was HTTP, and is something else now: WebSocket, as a rule.

use std::io;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::rewrite::{Rewriter, Words};

/// Carries both ways; what comes from the server has stars of the same number in the place of values, so that frames
/// stay whole.
pub(super) async fn carry(guest: OnUpgrade, server: OnUpgrade, masks: Option<Words>) {
    let (Ok(guest), Ok(server)) = tokio::join!(guest, server) else { return };
    let (from_guest, to_guest) = tokio::io::split(TokioIo::new(guest));
    let (from_server, to_server) = tokio::io::split(TokioIo::new(server));
    // Each ends by itself; whoever is left has nobody to tell of it.
    let _ = tokio::join!(copied(from_guest, to_server, None), copied(from_server, to_guest, masks));
}

async fn copied(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    masks: Option<Words>,
) -> io::Result<()> {
    let mut passing = masks.map(Rewriter::new);
    let mut buffer = vec![0; 16 << 10];
    loop {
        let outcome = from.read(&mut buffer).await;
        let count = *outcome.as_ref().unwrap_or(&0);
        let out = match &mut passing {
            None => buffer[..count].to_vec(),
            Some(passing) if count == 0 => passing.finish(),
            Some(passing) => passing.push(&buffer[..count]),
        };
        to.write_all(&out).await?;
        to.flush().await?;
        if count == 0 {
            return to.shutdown().await.and(outcome.map(drop));
        }
    }
}
