//! What a sandbox is to wake with is not where it was: it does not start, and its memory waits until it is back.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use sandbox_model::ExtraMount;
use sandbox_runtime::contract::Harness;

use crate::contract::QemuHarness;
use crate::sleeper::{Outcome, Sleeper, text};

pub const CASE: &str = "sleep_keeps_its_memory_while_something_is_not_where_it_was";

pub fn run() -> Outcome {
    let sleeper = Sleeper::with("sleep-moved", |harness| Ok(vec![data(harness)?]))?;
    let data = sleeper.spec.mounts[0].source.clone();
    sleeper.mark()?;
    for source in [data, sleeper.spec.workspace.source.clone()] {
        sleeper.fall_asleep()?;
        let away = source.with_extension("away");
        fs::rename(&source, &away).map_err(text)?;
        refused(&sleeper, &source.display().to_string())?;
        // As whoever moved it helps himself.
        symlink(&away, &source).map_err(text)?;
        refused(&sleeper, &format!("{} leads through a link", source.display()))?;
        fs::remove_file(&source).and_then(|()| fs::rename(&away, &source)).map_err(text)?;
        woken(&sleeper, &source.display().to_string())?;
    }
    // A part of the machine that cannot start says as little about the memory.
    sleeper.fall_asleep()?;
    let socket = sleeper.dir().join("share.sock");
    let _ = fs::remove_file(&socket);
    fs::create_dir(&socket).map_err(text)?;
    refused(&sleeper, "did not boot")?;
    fs::remove_dir(&socket).map_err(text)?;
    woken(&sleeper, "its share's socket")
}

fn data(harness: &QemuHarness) -> Outcome<ExtraMount> {
    let source: PathBuf = harness.workspace_dir().and_then(|dir| dir.canonicalize()).map_err(text)?;
    Ok(ExtraMount { target: "/data".into(), source, readonly: false })
}

/// It does not start, for this reason, and has its memory.
fn refused(sleeper: &Sleeper, reason: &str) -> Outcome {
    let error = match sleeper.runtime().start(sleeper.name()) {
        Ok(()) => return Err(format!("it started where this was to be said: {reason}")),
        Err(error) => error.to_string(),
    };
    if !error.contains(reason) {
        return Err(format!("{error:?} does not say {reason:?}"));
    }
    match sleeper.runtime().inspect(sleeper.name()).map_err(text)?.and_then(|info| info.saved_memory) {
        Some(_) => Ok(()),
        None => Err(format!("its memory is lost: {error}")),
    }
}

fn woken(sleeper: &Sleeper, what: &str) -> Outcome {
    sleeper.runtime().start(sleeper.name()).map_err(|error| format!("with {what} back: {error}"))?;
    if sleeper.is_marked()? { Ok(()) } else { Err(format!("with {what} back, it booted instead of waking")) }
}
