use std::future::pending;
use std::time::{Duration, Instant};

use sandbox_wire::{ExecOutput, FrameError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use super::Writer;
use super::spawn::Outputs;
use super::terminal::Screen;
use crate::framed::send;

/// The most output in one frame: a frame stays below 64 KiB.
const PIECE: usize = 60 * 1024;
/// How long a finished command's pipe may stay silent while something else still holds it open.
const SILENCE: Duration = Duration::from_millis(200);
/// How long something else may go on talking into a finished command's pipe.
const CHATTER: Duration = Duration::from_secs(2);
/// The most that a pipe can hold (`/proc/sys/fs/pipe-max-size`): what the command itself wrote is within.
const PIPE_CAPACITY: usize = 1024 * 1024;

/// Sends all output; returns when it has ended, or when the command has and the rest is not its own.
pub async fn all(outputs: Outputs, writer: &Writer, exited: watch::Receiver<bool>) -> Result<(), FrameError> {
    match outputs {
        Outputs::Pipes(stdout, stderr) => {
            let stdout = pump(stdout, ExecOutput::Stdout, writer, exited.clone());
            let stderr = pump(stderr, ExecOutput::Stderr, writer, exited);
            tokio::try_join!(stdout, stderr).map(|_| ())
        }
        Outputs::Terminal(terminal) => pump(Screen(&terminal), ExecOutput::Stdout, writer, exited).await,
        Outputs::Nothing => Ok(()),
    }
}

async fn pump(
    mut source: impl AsyncRead + Unpin,
    frame: impl Fn(Vec<u8>) -> ExecOutput,
    writer: &Writer,
    exited: watch::Receiver<bool>,
) -> Result<(), FrameError> {
    let mut buffer = vec![0; PIECE];
    let mut rest = Rest::new(exited);
    while let length @ 1.. = rest.read(&mut source, &mut buffer).await? {
        // The lock is let go between frames, so both streams of a command get their turn.
        send(&mut *writer.lock().await, &frame(buffer[..length].to_vec())).await?;
    }
    Ok(())
}

/// Knows when the output of a command is at its end.
#[derive(Debug)]
pub struct Rest {
    exited: watch::Receiver<bool>,
    after_exit: Option<(Instant, usize)>,
}

impl Rest {
    /// `exited` becomes true when the command has ended.
    pub const fn new(exited: watch::Receiver<bool>) -> Self {
        Self { exited, after_exit: None }
    }

    /// The next piece; 0 when the output has ended, or when the command has and the rest is not its own.
    pub async fn read(
        &mut self,
        source: &mut (impl AsyncRead + Unpin),
        buffer: &mut [u8],
    ) -> std::io::Result<usize> {
        if self.after_exit.is_some_and(|(since, sent)| sent >= PIPE_CAPACITY && since.elapsed() >= CHATTER) {
            return Ok(0);
        }
        let length = tokio::select! {
            biased;
            length = source.read(buffer) => length?,
            () = silence_after_exit(&mut self.exited) => return Ok(0),
        };
        if *self.exited.borrow() {
            self.after_exit.get_or_insert_with(|| (Instant::now(), 0)).1 += length;
        }
        Ok(length)
    }
}

async fn silence_after_exit(exited: &mut watch::Receiver<bool>) {
    if exited.wait_for(|exited| *exited).await.is_err() {
        // The sender lives as long as the session.
        pending::<()>().await;
    }
    tokio::time::sleep(SILENCE).await;
}
