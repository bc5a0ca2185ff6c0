//! The doer of a plan. Thin: what may go was decided; what was used meanwhile stays.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use fs_err as fs;
use sandbox_image::EngineSetting;
use sandbox_model::{ImageRef, SandboxName};
use sandbox_runtime::{RuntimeError, SandboxInfo};
use sandbox_state::is_locked;

use super::{Plan, Report, SeenImage, SeenLeftover, SeenSandbox, SeenVolume, StateRecord, snapshot};
use crate::locks::{Patience, boot_lock_if, remove_images};
use crate::{Context, Result, Target, leftovers};

const PURPOSE: &str = "prune";
const USED: &str = "it is in use";

/// Removes what a plan names: sandboxes first, then home volumes, then images. A sandbox that cannot be
/// removed keeps neither its volumes nor its images from going; one that was used since the snapshot keeps
/// both. `engine` is the one that was asked for the snapshot.
///
/// Never fails as a whole: every failure is in the report, beside what was done.
pub fn carry_out(context: &Context<'_>, engine: EngineSetting, plan: &Plan) -> Report {
    carry_out_with(context, engine, plan, Patience::Wait)
}

pub(super) fn carry_out_with(
    context: &Context<'_>,
    engine: EngineSetting,
    plan: &Plan,
    patience: Patience,
) -> Report {
    let mut doer = Doer {
        context,
        patience,
        report: Report::default(),
        spared: BTreeSet::new(),
        failed: BTreeSet::new(),
    };
    for sandbox in &plan.sandboxes {
        let what = format!("sandbox {}", sandbox.name);
        if let Err(error) = doer.sandbox(sandbox, &what) {
            doer.failed.insert((sandbox.name.clone(), sandbox.updated));
            doer.report.fail(what, &error);
        }
    }
    for sandbox in &plan.memories {
        let what = format!("saved memory of {}", sandbox.name);
        if let Err(error) = doer.memory(sandbox, &what) {
            doer.report.fail(what, &error);
        }
    }
    for volume in &plan.volumes {
        let what = format!("home volume {}", volume.name);
        if let Err(error) = doer.volume(volume, &what) {
            doer.report.fail(what, &error);
        }
    }
    for leftover in &plan.leftovers {
        let what = format!("unfinished home volume {}", leftover.path.display());
        if let Err(error) = doer.leftover(leftover, &what) {
            doer.report.fail(what, &error);
        }
    }
    for target in &plan.states {
        if let Err(error) = doer.state(target) {
            doer.report.fail(format!("state of {}", target.name()), &error);
        }
    }
    if (!plan.images.is_empty() || !plan.unnamed.is_empty())
        && let Err(error) = doer.images(engine, plan)
    {
        doer.report.fail("images".into(), &error);
    }
    doer.report
}

struct Doer<'a> {
    context: &'a Context<'a>,
    patience: Patience,
    report: Report,
    /// Whose sandbox was used since the snapshot.
    spared: BTreeSet<Target>,
    /// Sandboxes at rest that could not be removed, and when they were last used.
    failed: BTreeSet<(SandboxName, i64)>,
}

impl Doer<'_> {
    fn spare(&mut self, what: &str, why: &str, owner: Option<&Target>) {
        self.report.spare(what.into(), why);
        self.spared.extend(owner.cloned());
    }

    fn sandbox(&mut self, sandbox: &SeenSandbox, what: &str) -> Result<()> {
        let owner = sandbox.owner.as_ref();
        let own = owner.filter(|_| !sandbox.task);
        // A task holds the lock from before its sandbox is made until after it is gone.
        let patience = if sandbox.task { Patience::None } else { self.patience };
        let mut lock = None;
        if let Some(target) = owner {
            lock = boot_lock_if(self.context, target, PURPOSE, patience)?;
            if lock.is_none() {
                self.spare(what, USED, own);
                return Ok(());
            }
        }
        let Some(now) = self.context.runtime.inspect(&sandbox.name)? else { return Ok(()) };
        let used = now.updated != sandbox.updated && !sandbox.task;
        if !now.status.is_at_rest() || used {
            self.spare(what, &format!("it was used since, and is {}", now.status), own);
            return Ok(());
        }
        match self.context.runtime.remove(&sandbox.name) {
            Ok(()) => {}
            Err(RuntimeError::WrongStatus { status, .. }) => {
                self.spare(what, &format!("it is {status}"), own);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        // What cannot be cleared away is no reason to count the sandbox as one that is there.
        if let Some(error) = own.and_then(|target| leftovers::clear(self.context, target).err()) {
            self.report.fail(format!("records of {}", sandbox.name), &error);
        }
        drop(lock);
        self.report.free(sandbox.size);
        self.report.sandboxes.push(sandbox.name.to_string());
        Ok(())
    }

    /// Its sandbox stays, and all that is its own.
    fn memory(&mut self, sandbox: &SeenSandbox, what: &str) -> Result<()> {
        let mut lock = None;
        if let Some(target) = &sandbox.owner {
            lock = boot_lock_if(self.context, target, PURPOSE, self.patience)?;
            if lock.is_none() {
                self.spare(what, USED, None);
                return Ok(());
            }
        }
        // In one step with the look how old it is: what fell asleep anew meanwhile keeps its memory.
        let next = sandbox.updated.saturating_add(1);
        let forgotten = match self.context.runtime.forget_memory_before(&sandbox.name, next) {
            Err(RuntimeError::NoSuchSandbox(_)) => return Ok(()),
            other => other?,
        };
        if let Some(size) = forgotten {
            self.report.free(size);
            self.report.memories.push(sandbox.name.to_string());
        } else if let Some(now) = self.context.runtime.inspect(&sandbox.name)?
            && (!now.status.is_at_rest() || now.updated != sandbox.updated)
        {
            self.spare(what, &format!("its sandbox was used since, and is {}", now.status), None);
        }
        drop(lock);
        Ok(())
    }

    /// Those that are there now, but for the ones that could not be removed and were not used since.
    fn users(&self) -> Result<Vec<SandboxInfo>> {
        let mut users = self.context.runtime.list()?.sandboxes;
        users.retain(|info| {
            let failed = self.failed.contains(&(info.spec.name.clone(), info.updated));
            !(failed && info.status.is_at_rest())
        });
        Ok(users)
    }

    fn volume(&mut self, volume: &SeenVolume, what: &str) -> Result<()> {
        let owner = volume.owner.as_ref();
        if owner.is_some_and(|target| self.spared.contains(target)) {
            self.report.spare(what.into(), "its sandbox is in use");
            return Ok(());
        }
        let mut lock = None;
        if let Some(target) = owner {
            lock = boot_lock_if(self.context, target, PURPOSE, self.patience)?;
            if lock.is_none() {
                self.spare(what, USED, owner);
                return Ok(());
            }
        }
        if self.users()?.iter().any(|info| info.spec.home.path == volume.path) {
            self.spare(what, USED, owner);
            return Ok(());
        }
        remove_file(&volume.path)?;
        drop(lock);
        self.report.free(volume.size);
        self.report.volumes.push(volume.name.to_string());
        Ok(())
    }

    /// Its maker held the lock; nobody waits for one that holds it now.
    fn leftover(&mut self, leftover: &SeenLeftover, what: &str) -> Result<()> {
        let Some(_lock) = boot_lock_if(self.context, &leftover.owner, PURPOSE, Patience::None)? else {
            self.report.spare(what.into(), USED);
            return Ok(());
        };
        if self.users()?.iter().any(|info| info.spec.home.path.starts_with(&leftover.path)) {
            self.report.spare(what.into(), USED);
            return Ok(());
        }
        match fs::remove_dir_all(&leftover.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.report.free(leftover.size);
        self.report.leftovers.push(leftover.path.display().to_string());
        Ok(())
    }

    /// The folder goes with the last volume: it says nothing any more. Its keeper has ended with its
    /// sandbox; one that has not is left its files.
    fn state(&mut self, target: &Target) -> Result<()> {
        if self.spared.contains(target) {
            return Ok(());
        }
        let Some(_lock) = boot_lock_if(self.context, target, PURPOSE, self.patience)? else { return Ok(()) };
        let files = self.context.layout.sandbox_state(&target.checkout, target.agent);
        if let Some(StateRecord::Current(Some(name))) = snapshot::state(self.context, target)
            && self.context.layout.volume(&name).try_exists()?
        {
            // Either it could not be removed, or a run has made a new one since.
            return Ok(());
        }
        remove_file(&files.state())?;
        if is_locked(&files.keeper().lock)? {
            return Ok(());
        }
        match fs::remove_dir_all(&files.dir) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        if let Some(checkout) = files.dir.parent() {
            // Another agent's folder keeps it.
            let _ = fs::remove_dir(checkout);
        }
        Ok(())
    }

    fn images(&mut self, engine: EngineSetting, plan: &Plan) -> Result<()> {
        let Some(_lock) = remove_images(self.context, PURPOSE, self.patience)? else {
            self.report.spare("images".into(), "the image store is in use");
            return Ok(());
        };
        let users = self.users()?;
        let mut removed = BTreeSet::new();
        for image in &plan.images {
            let what = format!("image {}", image.reference);
            match self.image(image, &users) {
                Ok(Some(why)) => self.report.spare(what, why),
                Ok(None) => {
                    if removed.insert(&image.digest) {
                        self.report.free(image.size);
                    }
                    self.report.images.push(image.reference.to_string());
                }
                Err(error) => self.report.fail(what, &error),
            }
        }
        for image in &plan.unnamed {
            let what = format!("image {}", image.id.short());
            match self.context.images.remove_unnamed(self.context, engine, &image.id) {
                Ok(true) => {
                    self.report.free(image.size);
                    self.report.unnamed.push(image.id.to_string());
                }
                Ok(false) => self.report.spare(what, "it has a name again, or is gone"),
                Err(error) => self.report.fail(what, &error),
            }
        }
        Ok(())
    }

    /// Why it stays, where it does.
    fn image(&self, image: &SeenImage, users: &[SandboxInfo]) -> Result<Option<&'static str>> {
        let used =
            |info: &SandboxInfo| uses(info, &image.reference) || info.spec.image_digest == image.digest;
        if users.iter().any(used) {
            return Ok(Some(USED));
        }
        let now = self.context.runtime.inspect_image(&image.reference)?;
        if now.is_some_and(|now| now.digest != image.digest) {
            return Ok(Some("it was built anew"));
        }
        self.context.runtime.remove_image(&image.reference)?;
        Ok(None)
    }
}

fn uses(info: &SandboxInfo, reference: &ImageRef) -> bool {
    info.spec.image == *reference
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
