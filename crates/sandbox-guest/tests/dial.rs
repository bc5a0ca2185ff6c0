//! Connections to the guest's own ports.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, receive};
use futures::{AsyncReadExt, AsyncWriteExt};
use sandbox_wire::{GuestReply, GuestRequest, encode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

async fn dial(host: &Host, port: u16) -> yamux::Stream {
    let mut stream = host.open().await;
    let mut opening = encode(&GuestRequest::Dial { port }).unwrap();
    // What follows the request in the same write belongs to the connection.
    opening.extend_from_slice(b"early ");
    stream.write_all(&opening).await.unwrap();
    stream
}

async fn half_close_both_ways(listener: TcpListener) {
    let host = Host::booted();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut connected, _) = listener.accept().await.unwrap();
        let mut asked = String::new();
        connected.read_to_string(&mut asked).await.unwrap();
        connected.write_all(format!("you said {asked}").as_bytes()).await.unwrap();
    });
    let mut stream = dial(&host, port).await;
    assert_eq!(receive::<GuestReply>(&mut stream).await, Some(GuestReply::Ok));
    stream.write_all(b"late").await.unwrap();
    stream.close().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "you said early late");
    server.await.unwrap();
}

#[tokio::test]
async fn both_halves_end_on_their_own() {
    half_close_both_ways(TcpListener::bind("127.0.0.1:0").await.unwrap()).await;
}

#[tokio::test]
async fn a_server_on_the_other_loopback_is_found() {
    half_close_both_ways(TcpListener::bind("[::1]:0").await.unwrap()).await;
}

#[tokio::test]
async fn a_port_without_a_server_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let reply = Host::booted().ask(&GuestRequest::Dial { port }).await;
    assert_eq!(reply, GuestReply::Failed(format!("nothing listens on port {port}")));
}

#[tokio::test]
async fn a_client_that_leaves_closes_the_connection() {
    let host = Host::booted();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut stream = dial(&host, listener.local_addr().unwrap().port()).await;
    let (mut connected, _) = listener.accept().await.unwrap();
    assert_eq!(receive::<GuestReply>(&mut stream).await, Some(GuestReply::Ok));
    drop(stream);
    let mut rest = Vec::new();
    // By its end or by a reset, the server learns of it.
    let _ = tokio::time::timeout(common::PATIENCE, connected.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"early ");
}
