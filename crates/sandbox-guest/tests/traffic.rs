//! Much data, and slow readers.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, command, sh};
use futures::AsyncReadExt;
use sandbox_model::ExitStatus;
use sandbox_wire::{ExecInput, ExecOutput};
use sha2::{Digest, Sha256};

const MEGABYTE: usize = 1_000_000;
const HUNDRED: usize = 100;

/// A hundred different megabytes.
fn megabyte(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let mut bytes = Vec::with_capacity(MEGABYTE);
    while bytes.len() < MEGABYTE {
        // xorshift: nothing repeats, so a lost or doubled piece shows.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

#[tokio::test]
async fn a_hundred_megabytes_go_both_ways_intact() {
    let host = Host::booted();
    let exec = host.exec(command(&["cat"])).await;
    let (mut from, mut to) = (exec.from, exec.to);
    let sending = tokio::spawn(async move {
        let mut sum = Sha256::new();
        for number in 0..HUNDRED {
            for piece in megabyte(number).chunks(60_000) {
                sum.update(piece);
                to.stdin(piece).await;
            }
        }
        to.send(&ExecInput::Eof).await;
        (sum.finalize(), to)
    });
    let (mut sum, mut length, mut end) = (Sha256::new(), 0, None);
    while end.is_none() {
        match common::receive(&mut from).await.unwrap() {
            ExecOutput::Stdout(bytes) => {
                assert!(bytes.len() <= 64 * 1024);
                length += bytes.len();
                sum.update(&bytes);
            }
            ExecOutput::Exited(status) => end = Some(status),
            ExecOutput::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    let (sent, _to) = sending.await.unwrap();
    assert_eq!(length, HUNDRED * MEGABYTE);
    assert_eq!(sum.finalize(), sent);
    assert_eq!(end, Some(ExitStatus::SUCCESS));
}

#[tokio::test]
async fn a_slow_reader_blocks_nobody_else_and_loses_nothing() {
    let host = Host::booted();
    let lines = 3_000_000;
    let mut slow = host.exec(sh(&format!("seq 1 {lines}"))).await;
    slow.started().await;
    // Nothing is read of it until its command is stuck; all others go on.
    for _ in 0..5 {
        let ran = host.run("seq 1 100000 | tail -n 1").await;
        assert_eq!(ran.text(), "100000\n");
    }
    let ran = slow.finish().await;
    assert_eq!(ran.end, Some(ExitStatus::SUCCESS));
    assert!(ran.text().ends_with(&format!("\n{lines}\n")));
    assert_eq!(ran.text().lines().count(), lines);
}

#[tokio::test]
async fn bytes_that_are_no_message_end_their_stream_alone() {
    let host = Host::booted();
    let mut stream = host.open().await;
    futures::AsyncWriteExt::write_all(&mut stream, &[4, 0, 0, 0, 99, 99, 99, 99]).await.unwrap();
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
    let mut stream = host.open().await;
    futures::AsyncWriteExt::write_all(&mut stream, &[0xff; 8]).await.unwrap();
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
    assert_eq!(host.run("echo fine").await.text(), "fine\n");
}
