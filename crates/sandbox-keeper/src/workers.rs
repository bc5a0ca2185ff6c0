//! The threads that wait for others. Each answers one question at a time and ends when nobody asks any more.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use sandbox_model::{Activity, ActivityError, SandboxName, Session, Status};
use sandbox_runtime::{Result, Runtime, Slept};

use crate::mailbox::Sending;

/// Answers carry the number of their question.
pub(crate) enum Letter {
    Sessions(u64, Result<Vec<Session>, ActivityError>),
    Sandbox(u64, Result<Look>),
    /// How it was stopped, and how many commands without a terminal ended or slept with it.
    Stopped(Result<Slept>, usize),
}

/// The sandbox as one look found it; `None` where there is none.
pub(crate) type Look = Option<(Status, Option<String>)>;

/// Their work is small: reading some files, one short request.
const STACK: usize = 256 * 1024;

pub(crate) fn agent(
    mut activity: Box<dyn Activity>,
    mut sending: Sending<Letter>,
) -> std::io::Result<Sender<u64>> {
    let (sender, questions) = channel();
    Builder::new().name("agent".into()).stack_size(4 * STACK).spawn(move || {
        for question in questions {
            if !sending.send(Letter::Sessions(question, activity.poll())) {
                return;
            }
        }
    })?;
    Ok(sender)
}

pub(crate) fn watcher(
    runtime: Arc<dyn Runtime>,
    name: SandboxName,
    mut sending: Sending<Letter>,
) -> std::io::Result<Sender<u64>> {
    let (sender, questions) = channel();
    Builder::new().name("watcher".into()).stack_size(4 * STACK).spawn(move || {
        for question in questions {
            if !sending.send(Letter::Sandbox(question, look(runtime.as_ref(), &name))) {
                return;
            }
        }
    })?;
    Ok(sender)
}

pub(crate) fn look(runtime: &dyn Runtime, name: &SandboxName) -> Result<Look> {
    let Some(info) = runtime.inspect(name)? else { return Ok(None) };
    let boot = if info.status.is_at_rest() { None } else { runtime.boot_id(name)? };
    Ok(Some((info.status, boot)))
}

pub(crate) fn stopper(
    runtime: Arc<dyn Runtime>,
    name: SandboxName,
    boot: Option<String>,
    (grace, sleep): (Duration, bool),
    mut sending: Sending<Letter>,
) -> std::io::Result<()> {
    Builder::new().name("stopper".into()).stack_size(4 * STACK).spawn(move || {
        // Only for the log: that they cannot be counted keeps nothing up.
        let detached = runtime.sessions(&name).unwrap_or_default();
        let detached = detached.iter().filter(|session| session.is_detached()).count();
        // What was decided was decided about this boot: another may have been started meanwhile.
        let stopped = match boot {
            boot if sleep => runtime.sleep(&name, boot.as_deref(), grace),
            Some(boot) => runtime.stop_boot(&name, &boot, grace).map(Slept::from),
            None => runtime.stop(&name, grace).map(Slept::from),
        };
        sending.send(Letter::Stopped(stopped, detached));
    })?;
    Ok(())
}
