//! The one process of a boot that serves every link, and has all its commands.

use std::convert::Infallible;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener as StdListener;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;
use std::{io, panic};

use sandbox_model::{GUEST_SSH_AGENT_ASIDE, GUEST_USER};
use sandbox_wire::BootConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::compat::TokioAsyncReadCompatExt;

use crate::agent;
use crate::console::say;
use crate::guest::{Guest, Settings};
use crate::link::{narrow_link_config, serve_with};
use crate::machine::{BootError, Machine, Steps};

/// The argument that asks for this; standard input is the socket to listen on.
pub const MODE: &str = "daemon";
/// What a link hears first.
pub const TAKEN: &[u8; 1] = b"!";
/// A link that could not be taken, for want of descriptors or memory, is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// Serves links until the power goes.
pub fn run() -> ! {
    panic::set_hook(Box::new(|info| say(format_args!("the daemon panicked: {info}"))));
    let Err(error) = work();
    say(format_args!("the daemon failed: {error}"));
    exit(1)
}

fn work() -> io::Result<Infallible> {
    agent::settle_in();
    let listener = StdListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { links(&UnixListener::from_std(listener)?).await })
}

/// A link that ends resets its streams, and with them goes what was attended through them; the others, and what
/// is kept, go on.
async fn links(listener: &UnixListener) -> io::Result<Infallible> {
    let guest = Arc::new(Guest::new(Arc::new(BootedByOthers)));
    guest.booted(Settings { user: GUEST_USER.into(), ..Settings::default() });
    loop {
        match listener.accept().await {
            Ok((link, _)) => {
                tokio::spawn(one_link(link, Arc::clone(&guest)));
            }
            Err(error) => {
                say(format_args!("a link was not taken: {error}"));
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
    }
}

async fn one_link(mut link: UnixStream, guest: Arc<Guest>) {
    if link.write_all(TAKEN).await.is_ok() {
        serve_with(link.compat(), guest, narrow_link_config()).await;
    }
}

/// Booting and shutting down are the runtime's.
struct BootedByOthers;

impl Machine for BootedByOthers {
    fn boot(&self, _: &BootConfig, _: &Steps) -> Result<(), BootError> {
        Err(BootError::Step {
            step: "booting".into(),
            source: io::Error::other("this sandbox was booted already"),
        })
    }

    fn set_clock(&self, _: u64) -> io::Result<()> {
        Err(io::Error::other("the clock is the runtime's"))
    }

    fn settle(&self) -> io::Result<()> {
        Err(io::Error::other("the machine is the runtime's"))
    }

    fn wake(&self, _: u64) -> io::Result<()> {
        Err(io::Error::other("the machine is the runtime's"))
    }

    fn ssh_agent(&self) -> &'static str {
        GUEST_SSH_AGENT_ASIDE
    }

    fn shut_down(&self, _: Duration) {}
}
