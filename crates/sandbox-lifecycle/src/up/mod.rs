//! Bringing a sandbox up.

mod answers;
mod attach;
mod decide;
mod guest;
mod home;
pub(crate) mod live_ports;
mod live_resources;
mod live_secrets;
mod mounts;
mod others;
mod plan;
pub(crate) mod port_holder;
mod ports;
mod prepare;
mod proxy;
mod rehearse;
pub(crate) mod spec;
mod stakes;

pub(crate) use attach::IMAGE_FINGERPRINT;
pub(crate) use others::{InUse, held, life};
pub use rehearse::{Extent, Rehearsal, rehearse};

use std::time::{Duration, Instant};

use sandbox_agents::Profile;
use sandbox_keeper::Draining;
use sandbox_model::{SandboxName, Status};

use crate::{Context, Lease, LifecycleError, Result, UpRequest, sandbox_name};

use answers::{Answers, Question};

/// A stop takes seconds; one that takes longer than this is stuck.
const STOP_DEADLINE: Duration = Duration::from_mins(2);

/// A running sandbox that stays up for as long as this value lives.
#[derive(Debug)]
pub struct Up {
    /// As the runtime has it.
    pub name: SandboxName,
    /// What is known of its agent.
    pub profile: &'static Profile,
    /// Holds it: the keeper counts this client until the lease is dropped.
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
    /// The user decides how it goes on.
    Ask(Question),
}

/// What one try hands to the next.
#[derive(Debug, Default)]
struct Course {
    /// The sandbox was started.
    booted: bool,
    /// The user asked, with this very command, for another image: by a rebuild, which is done, or by a version, which
    /// is noted. Until the sandbox starts with it, one that runs is not the one that is wanted.
    rebuilt: bool,
    answers: Answers,
}

/// Brings the sandbox of a checkout and agent up and attaches to it.
///
/// Makes what is missing (image, home volume, sandbox), boots it, and starts its keeper. Any number of
/// calls at once, from any number of processes, end with one sandbox. Blocks for as long as it takes;
/// progress goes to the context's reporter. While a person is asked no lock is held; with the answer everything is
/// looked at anew.
pub fn up(context: &Context<'_>, request: &UpRequest) -> Result<Up> {
    let mut request = request.clone();
    let mut course = Course::default();
    let mut deadline = Instant::now() + STOP_DEADLINE;
    mounts::remember(&context.layout, &request.settings.mounts)?;
    let content_id = context.images.content_id(context, &request.build_request())?;
    loop {
        let attached = if course.rebuilt { None } else { attach::attach(context, &request, &content_id)? };
        let outcome = match attached {
            Some(outcome) => outcome,
            None => prepare::prepare(context, &mut request, &content_id, &mut course)?,
        };
        match outcome {
            Outcome::Up(up) => return Ok(Up { started: course.booted, ..up }),
            Outcome::Ask(question) => {
                course.answers.ask(context, question)?;
                // The person took that time, and no stop.
                deadline = Instant::now() + STOP_DEADLINE;
            }
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
