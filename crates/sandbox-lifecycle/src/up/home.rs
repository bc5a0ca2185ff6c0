//! What becomes of the home when its image changed.

use std::ops::ControlFlow;
use std::path::Path;

use sandbox_model::{Digest, SandboxSpec, VolumeName};
use sandbox_state::{ProjectState, SandboxFiles, write_record};

use super::answers::{Answers, NewImage, Question};
use super::attach::IMAGE_FINGERPRINT;
use super::plan::Plan;
use crate::home_volume::remove_unrecorded;
use crate::volumes::{How, make};
use crate::{Change, Context, Declined, HomeChoice, Result, Target, home_choice_needed};

/// Another home, as the user chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewHome {
    Reset,
    Migrate,
}

/// What the user wants of it, or the question that comes before; `None` keeps the home. Nothing has happened yet.
pub fn ask(
    context: &Context<'_>,
    answers: &Answers,
    plan: &Plan,
    state: &ProjectState,
    wanted: &SandboxSpec,
    changes: &[Change],
) -> Result<ControlFlow<Question, Option<NewHome>>> {
    let same = Ok(ControlFlow::Continue(None));
    let recreates = matches!(plan, Plan::Create | Plan::Recreate | Plan::StopAndRecreate);
    let Some(volume) = &state.home_volume else { return same };
    if !home_choice_needed(state.image_digest.as_ref(), &wanted.image_digest, recreates) {
        return same;
    }
    let question = NewImage {
        sandbox: wanted.name.clone(),
        volume: volume.clone(),
        image: wanted.image_digest.clone(),
        change: changes.iter().find(|change| change.setting == "image").cloned(),
    };
    let new = match answers.to_new_image(context, &question) {
        ControlFlow::Break(question) => return Ok(ControlFlow::Break(question)),
        ControlFlow::Continue(HomeChoice::Keep) => {
            context.reporter.info(&format!("the image changed; the home volume {volume} is kept"));
            return same;
        }
        ControlFlow::Continue(HomeChoice::Reset) => NewHome::Reset,
        ControlFlow::Continue(HomeChoice::Migrate) => NewHome::Migrate,
        ControlFlow::Continue(HomeChoice::Quit) => return Err(Declined::error()),
    };
    Ok(ControlFlow::Continue(Some(new)))
}

/// Makes the new home, of a sandbox at rest, and records it. The old volume stays.
pub fn replace(
    context: &Context<'_>,
    target: &Target,
    state: &mut ProjectState,
    wanted: &mut SandboxSpec,
    how: NewHome,
) -> Result<()> {
    let old = wanted.home.path.clone();
    let how = match how {
        NewHome::Reset => How::Fresh,
        NewHome::Migrate => How::Over(&old),
    };
    let dev = (wanted.workspace.guest_uid, wanted.workspace.guest_gid);
    let (name, path) = make(context, target, &wanted.image_digest, dev, how)?;
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    record(&files, state, &name, &path, &wanted.image_digest)?;
    wanted.home.path = path;
    Ok(())
}

/// Records a home that was just made. One that cannot be recorded goes again.
pub fn record(
    files: &SandboxFiles,
    state: &mut ProjectState,
    home: &VolumeName,
    path: &Path,
    image: &Digest,
) -> Result<()> {
    settle(state, home.clone(), image);
    write_record(&files.state(), state).or_else(|error| {
        remove_unrecorded(files, home, path)?;
        Err(error.into())
    })
}

/// Notes a home that was just made from an image: whatever comes now, nobody is asked about that image. What
/// it was built from is noted with the sandbox, and until then nothing is known of it.
fn settle(state: &mut ProjectState, home: VolumeName, image: &Digest) {
    state.home_volume = Some(home);
    state.image_digest = Some(image.clone());
    state.fingerprints.remove(IMAGE_FINGERPRINT);
}
