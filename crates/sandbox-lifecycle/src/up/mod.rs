//! Bringing a sandbox up.

mod attach;
mod guest;
mod home;
pub(crate) mod live_ports;
mod live_resources;
mod live_secrets;
mod mounts;
mod others;
mod plan;
mod ports;
mod prepare;
mod proxy;
mod rehearse;
pub(crate) mod spec;
mod stakes;

pub(crate) use attach::IMAGE_FINGERPRINT;
pub(crate) use others::held;
pub use rehearse::{Extent, Rehearsal, rehearse};

use std::time::{Duration, Instant};

use sandbox_agents::Profile;
use sandbox_keeper::Draining;
use sandbox_model::{SandboxName, Status};

use crate::{Context, Lease, LifecycleError, Result, UpRequest, sandbox_name};

/// A stop takes seconds; one that takes longer than this is stuck.
const STOP_DEADLINE: Duration = Duration::from_mins(2);

/// A running sandbox that stays up for as long as this value lives.
#[derive(Debug)]
pub struct Up {
    pub name: SandboxName,
    /// What is known of its agent.
    pub profile: &'static Profile,
    pub lease: Lease,
    /// Another word for every start.
    pub boot_id: String,
    /// Another word for every boot of the guest; the same when it slept and woke.
    pub guest_boot: String,
    /// This call booted it.
    pub started: bool,
    /// The guest folder that matches the one where the command was typed.
    pub guest_dir: String,
    /// The machine runs without hardware virtualization.
    pub emulated: bool,
}

/// Where one try led.
enum Outcome {
    Up(Up),
    /// The keeper is stopping it.
    Stopping(Draining),
    /// Someone else is stopping it, or it went away between two looks.
    Unsettled,
}

/// Brings the sandbox of a checkout and agent up and attaches to it.
///
/// Makes what is missing (image, home volume, sandbox), boots it, and starts its keeper. Any number of
/// calls at once, from any number of processes, end with one sandbox. Blocks for as long as it takes;
/// progress goes to the context's reporter.
pub fn up(context: &Context<'_>, request: &UpRequest) -> Result<Up> {
    let mut request = request.clone();
    let mut booted = false;
    let deadline = Instant::now() + STOP_DEADLINE;
    mounts::remember(&context.layout, &request.settings.mounts)?;
    let content_id = context.images.content_id(context, &request.build_request())?;
    loop {
        let outcome = match attach::attach(context, &request, &content_id)? {
            Some(outcome) => outcome,
            None => prepare::prepare(context, &mut request, &content_id, &mut booted)?,
        };
        match outcome {
            Outcome::Up(up) => return Ok(Up { started: booted, ..up }),
            Outcome::Stopping(keeper) => {
                let step = context.reporter.begin("waiting for the sandbox to stop");
                keeper.wait();
                step.finish(None);
            }
            Outcome::Unsettled if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            Outcome::Unsettled => {
                let name = sandbox_name(context, &request.target())?;
                let status = context.runtime.inspect(&name)?.map_or(Status::Created, |info| info.status);
                return Err(LifecycleError::NotUsable { name, status });
            }
        }
    }
}
