use std::path::{Path, PathBuf};

use sandbox_model::RepoSlug;

use crate::error::{ConfigError, FileError, Refusal, position};
use crate::file::{Whose, settings_file};
use crate::flags::{self, Flags};
use crate::layer::USERS_OWN;
use crate::origin::Origin;
use crate::read::Folders;
use crate::settings::{DIND, Settings, Source};
use crate::tree::Node;
use crate::widening::ProjectLayer;
use crate::{environment, json, layer, yaml};

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// The user's configuration folder; empty where the user's own files are left out.
    pub config_dir: PathBuf,
    /// Names the folder in it that holds for every clone of this project's remote.
    pub repo_slug: Option<RepoSlug>,
    /// The project's `.agents-sandbox` folder.
    pub project_dir: Option<PathBuf>,
    /// Every variable; `HOME` is what `~` means.
    pub environment: Vec<(String, String)>,
    /// The highest layer.
    pub flags: Flags,
}

/// Resolved settings, and what the user should be told about them.
#[derive(Debug)]
pub struct Loaded {
    /// What holds, key by key, each with its origin.
    pub settings: Settings,
    /// One line each, for people.
    pub warnings: Vec<String>,
    /// What the project's own file sets; `None` where it has none.
    pub project: Option<ProjectLayer>,
}

/// Resolves the settings. From the lowest layer to the highest: built in, the user's file, the user's
/// file for this repository, the project's file, variables, flags.
///
/// Maps merge key by key and lists replace. Fails on a file that cannot be read or parsed, on an unknown
/// key, and on a value that is no value of its key, whichever layer it is in; and on a project's file that
/// sets what only the user can say (`yes`, `msb.archive`, `qemu.kernel`).
pub fn load(inputs: &Inputs) -> Result<Loaded, ConfigError> {
    let folders = Folders::of(&inputs.environment);
    let mut settings = Settings::default();
    let mut warnings = Vec::new();
    let mut dind = false;
    let own = Some(inputs.config_dir.as_path()).filter(|folder| !folder.as_os_str().is_empty());
    let repo_dir = own.and_then(|own| inputs.repo_slug.as_ref().map(|slug| own.join(slug.as_str())));
    for folder in [own, repo_dir.as_deref()].into_iter().flatten() {
        if let Some(file) = File::read(folder, Whose::User)? {
            dind |= file.apply(&mut settings, &folders, &[])?.contains(&DIND);
        }
    }
    let mut project = None;
    let read = |folder| File::read(folder, Whose::Project);
    if let Some(file) = inputs.project_dir.as_deref().map(read).transpose()?.flatten() {
        let below = settings.clone();
        dind |= file.apply(&mut settings, &folders, &USERS_OWN)?.contains(&DIND);
        let mut alone = Settings::default();
        file.apply(&mut alone, &folders, &USERS_OWN)?;
        project = Some(ProjectLayer::new(file.path, alone, &below));
    }
    let noticed = environment::apply(&mut settings, &inputs.environment, &folders)?;
    warnings.extend(noticed.warnings);
    dind |= noticed.dind;
    dind |= flags::apply(&mut settings, &inputs.flags, &folders)?;
    if dind {
        warnings.push("`dind` is the old name of `docker`; write `docker` instead".into());
    }
    Ok(Loaded { settings, warnings, project })
}

/// A settings file that was parsed.
struct File {
    path: PathBuf,
    text: String,
    document: Node,
}

impl File {
    fn read(folder: &Path, whose: Whose) -> Result<Option<Self>, ConfigError> {
        let Some((path, text)) = settings_file(folder, whose)? else { return Ok(None) };
        let yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        match if yaml { yaml::parse(&text) } else { json::parse(&text) } {
            Ok(document) => Ok(Some(Self { path, text, document })),
            Err(refusal) => Err(refused(&path, &text, refusal)),
        }
    }

    fn apply(
        &self,
        settings: &mut Settings,
        folders: &Folders,
        barred: &[&str],
    ) -> Result<Vec<&'static str>, ConfigError> {
        let folders = Folders { base: self.path.parent().map(Path::to_path_buf), ..folders.clone() };
        let origin = |offset| Origin::File { path: self.path.clone(), line: position(&self.text, offset).0 };
        let source = Source { folders: &folders, origin: &origin };
        layer::apply(settings, &self.document, &source, barred)
            .map_err(|refusal| refused(&self.path, &self.text, refusal))
    }
}

fn refused(path: &Path, text: &str, refusal: Refusal) -> ConfigError {
    ConfigError::File(Box::new(FileError::new(path, text, refusal)))
}
