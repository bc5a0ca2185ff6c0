use std::path::Path;
use std::time::{Duration, SystemTime};

use fs_err as fs;
use sandbox_model::Digest;
use sandbox_state::{Layout, Lock, LockMode};

use super::apt::{codename, default_suite, targets};
use super::bootstrap::{bootstrap, import, rootfs};
use super::setting::{BaseSetting, DEFAULT_BASE, bootstrapped};
use crate::{Engine, Events, ImageError, Result};

/// `auto` has something else to try, so a registry must be quick.
const AUTO_PULL: Duration = Duration::from_mins(1);
const PULL: Duration = Duration::from_mins(30);
/// A rebuild makes a bootstrapped base anew when it is older.
const FRESH: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedBase {
    pub reference: String,
    pub id: Digest,
}

/// Makes sure that the engine has the base image, and says which it is. With `refresh` a newer one is
/// fetched or made, where that is possible.
pub(crate) fn resolve(
    engine: &dyn Engine,
    setting: &BaseSetting,
    refresh: bool,
    layout: &Layout,
    events: &mut dyn Events,
) -> Result<ResolvedBase> {
    match setting {
        BaseSetting::Reference(reference) => {
            if let Some(found) = at_hand_or_pulled(engine, reference.as_str(), refresh, PULL, events)? {
                return Ok(found);
            }
            Err(ImageError::NoImage(reference.to_string()))
        }
        BaseSetting::Bootstrap(suite) => bootstrapped_base(engine, suite, refresh, layout, events),
        BaseSetting::Auto => auto(engine, refresh, layout, events),
    }
}

fn auto(
    engine: &dyn Engine,
    refresh: bool,
    layout: &Layout,
    events: &mut dyn Events,
) -> Result<ResolvedBase> {
    if let Some(id) = look(engine, DEFAULT_BASE)? {
        if !refresh {
            return Ok(ResolvedBase { reference: DEFAULT_BASE.into(), id });
        }
    } else {
        // Where a base was bootstrapped before, registries were out of reach: do not ask them each time.
        let suite = default_suite(&targets()?, codename(Path::new("/etc/os-release")).as_deref());
        if rootfs(layout, &suite).exists() || look(engine, &bootstrapped(&suite))?.is_some() {
            return bootstrapped_base(engine, &suite, refresh, layout, events);
        }
    }
    match at_hand_or_pulled(engine, DEFAULT_BASE, true, AUTO_PULL, events) {
        Ok(Some(found)) => return Ok(found),
        Err(ImageError::Cancelled) => return Err(ImageError::Cancelled),
        Ok(None) => {}
        Err(error) => events.log(&format!("{DEFAULT_BASE} cannot be fetched: {error}")),
    }
    let suite = default_suite(&targets()?, codename(Path::new("/etc/os-release")).as_deref());
    match bootstrapped_base(engine, &suite, refresh, layout, events) {
        Err(ImageError::NoBootstrap { .. }) => {
            Err(ImageError::NoBootstrap { reference: DEFAULT_BASE.into() })
        }
        other => other,
    }
}

fn look(engine: &dyn Engine, reference: &str) -> Result<Option<Digest>> {
    Ok(engine.inspect(reference)?.map(|image| image.id))
}

fn at_hand_or_pulled(
    engine: &dyn Engine,
    reference: &str,
    refresh: bool,
    deadline: Duration,
    events: &mut dyn Events,
) -> Result<Option<ResolvedBase>> {
    let found = look(engine, reference)?;
    if refresh || found.is_none() {
        events.stage(&format!("fetching the base image {reference}"));
        match engine.pull(reference, deadline, events) {
            Ok(()) => {}
            Err(ImageError::Cancelled) => return Err(ImageError::Cancelled),
            // An older one is better than none.
            Err(error) if found.is_some() => events.log(&format!("{reference} stays as it is: {error}")),
            Err(error) => return Err(error),
        }
    }
    Ok(look(engine, reference)?.map(|id| ResolvedBase { reference: reference.into(), id }))
}

fn bootstrapped_base(
    engine: &dyn Engine,
    suite: &str,
    refresh: bool,
    layout: &Layout,
    events: &mut dyn Events,
) -> Result<ResolvedBase> {
    let reference = bootstrapped(suite);
    let _lock = Lock::take(&layout.base_lock(), LockMode::Exclusive, "bootstrap", |holder| {
        events.waiting(&holder.to_string());
    })?;
    let path = rootfs(layout, suite);
    let stale = refresh && age(&path).is_some_and(|age| age > FRESH);
    let missing = look(engine, &reference)?.is_none();
    if missing || stale {
        let path = if path.exists() && !stale { path } else { bootstrap(layout, suite, events)? };
        import(engine, suite, &path, events)?;
    }
    let id = look(engine, &reference)?.ok_or_else(|| ImageError::NoImage(reference.clone()))?;
    Ok(ResolvedBase { reference, id })
}

fn age(path: &Path) -> Option<Duration> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    SystemTime::now().duration_since(modified).ok()
}

#[cfg(test)]
mod tests;
