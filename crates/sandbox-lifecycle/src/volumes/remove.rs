use fs_err as fs;
use sandbox_model::{ByteSize, VolumeName};
use sandbox_state::{ProjectState, read_record, write_record};

use super::{VolumeError, files};
use crate::locks::boot_lock;
use crate::{Context, Target, owner};

/// What became of a home volume that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovedVolume {
    /// Bytes on disk that are free now, or would be.
    pub freed: ByteSize,
    /// A state file named it, of a sandbox that is gone; the next run of that makes a new home.
    pub was_current: bool,
}

/// Removes a home volume, for good. One that a sandbox mounts is refused, whatever that does; so is the
/// current one of a sandbox that exists. `dry_run` only finds out.
pub fn remove(context: &Context<'_>, name: &VolumeName, dry_run: bool) -> Result<RemovedVolume, VolumeError> {
    let target = owner::of_volume(name).map(|(target, _)| target);
    let _lock = target.as_ref().map(|target| boot_lock(context, target, "volume remove")).transpose()?;
    let volume = files(&context.layout)?.into_iter().find(|volume| volume.name == *name);
    let volume = volume.ok_or_else(|| VolumeError::NoSuchVolume(name.clone()))?;
    let list = context.runtime.list()?;
    if let Some(user) = list.sandboxes.iter().find(|info| info.spec.home.path == volume.path) {
        let (sandbox, status) = (user.spec.name.clone(), user.status.clone());
        return Err(VolumeError::InUse { volume: name.clone(), sandbox, status });
    }
    let recorded = target.as_ref().map(|target| recorded(context, name, target)).transpose()?.flatten();
    if let (Some(target), Some(_)) = (&target, &recorded)
        && exists(&list, target)
    {
        return Err(VolumeError::Current { volume: name.clone(), sandbox: target.name() });
    }
    let done = RemovedVolume { freed: volume.used, was_current: recorded.is_some() };
    if dry_run {
        return Ok(done);
    }
    // A record without its volume is healed by the next run; a volume without its record would be lost.
    fs::remove_file(&volume.path)?;
    if let (Some(target), Some(mut state)) = (target, recorded) {
        state.home_volume = None;
        write_record(&context.layout.sandbox_state(&target.checkout, target.agent).state(), &state)?;
    }
    Ok(done)
}

/// A sandbox whose record is broken exists too.
fn exists(list: &sandbox_runtime::SandboxList, target: &Target) -> bool {
    let name = target.name();
    list.sandboxes
        .iter()
        .any(|info| info.spec.name == name || Target::of(&info.spec).as_ref() == Some(target))
        || list.broken.iter().any(|broken| broken.name == name.as_str())
}

/// The state file, where it names the volume.
fn recorded(
    context: &Context<'_>,
    volume: &VolumeName,
    target: &Target,
) -> Result<Option<ProjectState>, VolumeError> {
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    match read_record::<ProjectState>(&files.state()) {
        Ok(state) => Ok(state.filter(|state| state.home_volume.as_ref() == Some(volume))),
        Err(error) => {
            let (sandbox, problem) = (target.name(), error.to_string());
            Err(VolumeError::Unknown { volume: volume.clone(), sandbox, problem })
        }
    }
}
