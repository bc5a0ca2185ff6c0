//! The guest's end of a connection.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::exchange::Exchange;
use super::{FIELDS, FROM_GUESTS, STREAMS};

/// Requests of the guest, until it ends the connection, or the server's end does: what is under way is then finished.
pub(super) async fn speak(
    guest: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    exchange: Exchange,
    two: bool,
    server: Option<JoinHandle<()>>,
) -> io::Result<()> {
    let exchange = Arc::new(exchange);
    let service = service_fn(move |request| {
        let exchange = Arc::clone(&exchange);
        async move { exchange.answer(request).await }
    });
    let guest = TokioIo::new(guest);
    let server_ends = async {
        match server {
            Some(server) => drop(server.await),
            None => std::future::pending().await,
        }
    };
    if two {
        let mut connection = pin!(
            http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(FROM_GUESTS.0)
                .initial_connection_window_size(FROM_GUESTS.1)
                .max_header_list_size(FIELDS)
                .max_concurrent_streams(STREAMS)
                .serve_connection(guest, service)
        );
        tokio::select! {
            outcome = connection.as_mut() => return outcome.map_err(io::Error::other),
            () = server_ends => connection.as_mut().graceful_shutdown(),
        }
        return connection.await.map_err(io::Error::other);
    }
    let mut connection = pin!(
        http1::Builder::new().preserve_header_case(true).serve_connection(guest, service).with_upgrades()
    );
    tokio::select! {
        outcome = connection.as_mut() => return outcome.map_err(io::Error::other),
        () = server_ends => connection.as_mut().graceful_shutdown(),
    }
    connection.await.map_err(io::Error::other)
}
