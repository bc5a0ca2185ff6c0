use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::pins::Pins;
use super::place::Staged;
use super::{Events, InstallEvent, RuntimeInstallError, archive, download, pip};

/// Where the runtime's files may come from. Whatever it is, the pinned hashes decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RuntimeSource {
    /// A folder or an archive (wheel, zip, tar.gz). When set, nothing else is asked.
    pub path: Option<PathBuf>,
    /// An archive's address, asked before pip; `{version}` and `{arch}` (`x86_64`) stand for the pinned ones.
    pub url: Option<String>,
    /// Whether the user's own pip may fetch the Python package that carries both files.
    pub pip: bool,
    /// The longest that one fetch may take, in seconds.
    pub deadline: u64,
}

impl Default for RuntimeSource {
    fn default() -> Self {
        Self { path: None, url: None, pip: true, deadline: 900 }
    }
}

impl RuntimeSource {
    /// Asks the sources in order until one has delivered both files, verified, into `staged`.
    pub(crate) fn fetch(
        &self,
        pins: &Pins,
        staged: &Staged,
        events: Events<'_>,
    ) -> Result<(), RuntimeInstallError> {
        if let Some(path) = &self.path {
            events(InstallEvent::Asking { source: path.display().to_string() });
            return take_from(path, pins, staged);
        }
        let deadline = Duration::from_secs(self.deadline);
        let mut attempts = Vec::new();
        if let Some(template) = &self.url {
            let url = template.replace("{version}", pins.version).replace("{arch}", pins.arch);
            events(InstallEvent::Asking { source: url.clone() });
            let partial = download::Partial::of(&url, staged.home());
            let fetched = download::fetch(&url, &partial, deadline, events);
            let taken = fetched.and_then(|()| {
                let taken = take_from(&partial.archive, pins, staged).map_err(|error| named(error, &url));
                // It was whole: right or wrong, nothing is to be added to it.
                partial.discard()?;
                taken
            });
            match taken {
                Ok(()) => return Ok(()),
                Err(error) => attempts.push(failed(url, error, events)),
            }
        }
        if self.pip {
            match pip::Pip::find().and_then(|pip| {
                events(InstallEvent::Asking { source: pip.describe(pins) });
                let wheel = pip.download(pins, &staged.fetched()?, deadline, events)?;
                take_from(&wheel, pins, staged)
            }) {
                Ok(()) => return Ok(()),
                Err(error) => attempts.push(failed("pip".into(), error, events)),
            }
        }
        match attempts.len() {
            1 => Err(attempts.remove(0).1),
            _ => Err(RuntimeInstallError::NoSource(attempts)),
        }
    }
}

fn failed(source: String, error: RuntimeInstallError, events: Events<'_>) -> (String, RuntimeInstallError) {
    events(InstallEvent::Failed { source: source.clone(), problem: error.to_string() });
    (source, error)
}

/// People know the address, not the temporary file.
fn named(error: RuntimeInstallError, url: &str) -> RuntimeInstallError {
    let source_name = url.to_string();
    match error {
        RuntimeInstallError::WrongFile { file, wanted, got, .. } => {
            RuntimeInstallError::WrongFile { source_name, file, wanted, got }
        }
        RuntimeInstallError::Incomplete { file, .. } => RuntimeInstallError::Incomplete { source_name, file },
        RuntimeInstallError::NotAnArchive { .. } => RuntimeInstallError::Download {
            url: source_name,
            problem: "what it sent is no zip, wheel or tar.gz archive".into(),
        },
        RuntimeInstallError::BadArchive { problem, .. } => {
            RuntimeInstallError::Download { url: source_name, problem }
        }
        other => other,
    }
}

/// Takes both files from a folder or an archive.
pub(crate) fn take_from(path: &Path, pins: &Pins, staged: &Staged) -> Result<(), RuntimeInstallError> {
    if fs::metadata(path)?.is_dir() {
        for pin in &pins.files {
            let places = [pin.dir, "", "microsandbox/_bundled"].map(|dir| match dir {
                "microsandbox/_bundled" => path.join(dir).join(pin.dir).join(pin.name),
                dir => path.join(dir).join(pin.name),
            });
            let Some(found) = places.iter().find(|place| place.is_file()) else {
                let source_name = path.display().to_string();
                return Err(RuntimeInstallError::Incomplete { source_name, file: pin.name });
            };
            staged.take(pin, &mut fs::File::open(found)?, &found.display().to_string())?;
        }
        return Ok(());
    }
    archive::unpack(path, pins, staged)
}
