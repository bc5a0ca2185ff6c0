//! The same sessions over standard input and output: for a runtime with an init and a boot of its own,
//! whose way of running commands carries the link.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use sandbox_model::{GUEST_SSH_AGENT_ASIDE, GUEST_USER};
use sandbox_wire::BootConfig;
use tokio::net::unix::pipe;
use tokio_util::compat::TokioAsyncReadCompatExt;

use crate::console::say;
use crate::guest::{Guest, Settings};
use crate::link::{narrow_link_config, serve_with};
use crate::machine::{BootError, Machine, Steps};

/// The argument that asks for this.
pub const MODE: &str = "stdio";
/// Longer than a hang-up takes to kill a command that does not leave.
const SESSIONS_END_WITHIN: Duration = Duration::from_secs(8);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const DESCRIPTORS: u64 = 65_536;

/// Serves one link until its other side is gone, and every command with it.
pub fn run() -> ! {
    match work() {
        Ok(()) => exit(0),
        Err(error) => {
            say(format_args!("the link failed: {error}"));
            exit(1)
        }
    }
}

fn work() -> io::Result<()> {
    let _ = setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS);
    // The other init leaves the machine's settings as the kernel has them.
    crate::sysctls::apply();
    // A guest without that file, or a caller who may not write it, has the host's other name all the same.
    let _ = crate::host_name::add(Path::new("/etc/hosts"));
    // Whoever ends this process group must not end commands before they were hung up, and a link outlives
    // a terminal.
    let _ = nix::unistd::setsid();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(link());
    runtime.shutdown_background();
    outcome
}

async fn link() -> io::Result<()> {
    let input = pipe::Receiver::from_file_unchecked(own(&io::stdin())?)?;
    let output = pipe::Sender::from_file_unchecked(own(&io::stdout())?)?;
    let guest = Arc::new(Guest::new(Arc::new(BootedByOthers)));
    guest.booted(Settings { user: GUEST_USER.into(), ..Settings::default() });
    let carrier = tokio::io::join(input, output).compat();
    serve_with(carrier, Arc::clone(&guest), narrow_link_config()).await;
    // Sessions hold the guest; with the link gone they hang their commands up and let it go.
    let deadline = Instant::now() + SESSIONS_END_WITHIN;
    while Arc::strong_count(&guest) > 1 && Instant::now() < deadline {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// A descriptor of its own, in non-blocking mode as the reactor needs it.
fn own(stream: &impl AsFd) -> io::Result<File> {
    let owned: OwnedFd = stream.as_fd().try_clone_to_owned()?;
    nix::fcntl::fcntl(&owned, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
    Ok(File::from(owned))
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
