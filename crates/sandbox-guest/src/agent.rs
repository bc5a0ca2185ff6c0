//! The agent process: one link after the other, until the power goes.

use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;
use std::{io, panic};

use futures::io::{BufReader, BufWriter};
use nix::sys::resource::{Resource, setrlimit};

use crate::boot::LiveMachine;
use crate::console::say;
use crate::guest::Guest;
use crate::link::{LinkEnd, serve};
use crate::port::{Port, find};
use crate::sleep;

/// A host that stays away for this long is gone: nobody can stop this machine any more but itself.
const HOST_RETURNS_WITHIN: Duration = Duration::from_mins(1);
/// The kernel hands out at most a page per read and takes at most 32 KiB per write.
const READ_BUFFER: usize = 4096;
const WRITE_BUFFER: usize = 32 * 1024;
pub(crate) const NAME: &str = "sandbox-guest";
/// The agent holds descriptors for every session.
const DESCRIPTORS: u64 = 65_536;

/// Serves the host until a shutdown, or until the host is gone. Process 1 cuts the power when this process
/// ends, whatever the reason.
pub fn run() -> ! {
    panic::set_hook(Box::new(|info| say(format_args!("the agent process panicked: {info}"))));
    match work() {
        Ok(()) => exit(0),
        Err(error) => {
            say(format_args!("the agent process failed: {error}"));
            exit(1)
        }
    }
}

/// None of these may fail a boot: a name for `ps`, and what matters when memory or descriptors run short.
pub(crate) fn settle_in() {
    let _ = fs_err::write("/proc/self/comm", NAME);
    let _ = fs_err::write("/proc/self/oom_score_adj", "-1000");
    let _ = setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS);
}

fn work() -> io::Result<()> {
    settle_in();
    let port = Port::open(&find(Path::new("/sys"))?)?;
    let guest = Arc::new(Guest::new(Arc::new(LiveMachine::default())));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(links(&port, &guest));
    // A blocking action that hangs (a dead share server) must not keep the power on.
    runtime.shutdown_background();
    outcome
}

async fn links(port: &Port, guest: &Arc<Guest>) -> io::Result<()> {
    loop {
        if !port.host_connects(HOST_RETURNS_WITHIN).await {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the host is gone"));
        }
        let carrier =
            BufReader::with_capacity(READ_BUFFER, BufWriter::with_capacity(WRITE_BUFFER, port.link()?));
        match serve(carrier, Arc::clone(guest)).await {
            LinkEnd::PowerOff => return Ok(()),
            LinkEnd::Asleep(token) => sleep::until_woken(port, guest, token, HOST_RETURNS_WITHIN).await?,
            LinkEnd::Lost => say(format_args!("the host has closed the link")),
        }
    }
}
