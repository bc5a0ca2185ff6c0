//! Reads docker archives (`docker save`): a manifest, a configuration, and one tar per layer.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tar::EntryType;

use crate::{Result, RuntimeError};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Manifest {
    config: PathBuf,
    layers: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct ImageConfig {
    #[serde(default)]
    config: Option<Settings>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Settings {
    env: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
}

pub(super) struct Config {
    pub env: Vec<(String, String)>,
    pub labels: BTreeMap<String, String>,
}

#[allow(clippy::needless_pass_by_value, reason = "its use is in map_err")]
fn bad(problem: impl ToString) -> RuntimeError {
    RuntimeError::BadArchive(problem.to_string())
}

/// A member's content, as a part of the archive's file.
fn member(archive: &Path, wanted: &Path) -> Result<std::io::Take<File>> {
    let mut entries = tar::Archive::new(File::open(archive)?);
    for entry in entries.entries().map_err(bad)? {
        let entry = entry.map_err(bad)?;
        if entry.path().map_err(bad)? == wanted {
            let (start, length) = (entry.raw_file_position(), entry.size());
            let mut file = File::open(archive)?;
            file.seek(SeekFrom::Start(start))?;
            return Ok(file.take(length));
        }
    }
    Err(bad(format!("it has no {}", wanted.display())))
}

fn json<T: DeserializeOwned>(archive: &Path, wanted: &Path) -> Result<T> {
    serde_json::from_reader(member(archive, wanted)?)
        .map_err(|error| bad(format!("{}: {error}", wanted.display())))
}

fn manifest(archive: &Path) -> Result<Manifest> {
    let images: Vec<Manifest> = json(archive, Path::new("manifest.json"))?;
    images.into_iter().next().ok_or_else(|| bad("it holds no image"))
}

pub(super) fn read_config(archive: &Path) -> Result<Config> {
    let manifest = manifest(archive)?;
    for layer in &manifest.layers {
        member(archive, layer)?;
    }
    let settings = json::<ImageConfig>(archive, &manifest.config)?.config.unwrap_or_default();
    let env = settings.env.unwrap_or_default().into_iter();
    Ok(Config {
        env: env
            .filter_map(|pair| pair.split_once('=').map(|(key, value)| (key.into(), value.into())))
            .collect(),
        labels: settings.labels.unwrap_or_default(),
    })
}

/// A member's name without `/`, `./` and everything else that is not a plain name.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// Unpacks what the layers together have below `guest_path`.
pub(super) fn unpack_dir(archive: &Path, guest_path: &str, to: &Path) -> Result<()> {
    let wanted = plain(Path::new(guest_path));
    let mut found = false;
    for layer in manifest(archive)?.layers {
        let mut layer = tar::Archive::new(member(archive, &layer)?);
        for entry in layer.entries().map_err(bad)? {
            let mut entry = entry.map_err(bad)?;
            let path = plain(&entry.path().map_err(bad)?);
            let Ok(inside) = path.strip_prefix(&wanted) else { continue };
            found = true;
            if apply_whiteout(inside, to)? {
                continue;
            }
            let target = to.join(inside);
            fs::create_dir_all(target.parent().unwrap_or(to))?;
            if entry.header().entry_type() == EntryType::Link {
                let source = entry.link_name().map_err(bad)?.map(|name| plain(&name)).unwrap_or_default();
                let Ok(source) = source.strip_prefix(&wanted) else {
                    return Err(bad(format!("{} is linked to a file outside", path.display())));
                };
                fs::hard_link(to.join(source), target)?;
            } else {
                entry.set_preserve_permissions(true);
                entry.unpack(target).map_err(bad)?;
            }
        }
    }
    if found { Ok(()) } else { Err(bad(format!("the image has no folder {guest_path}"))) }
}

/// A layer says with a file's name what it removes from the layers below.
fn apply_whiteout(inside: &Path, to: &Path) -> Result<bool> {
    let Some(name) = inside.file_name().and_then(|name| name.to_str()) else { return Ok(false) };
    let dir = to.join(inside.parent().unwrap_or(Path::new("")));
    if name == ".wh..wh..opq" {
        for entry in fs::read_dir(&dir).into_iter().flatten() {
            remove_any(&entry?.path())?;
        }
        return Ok(true);
    }
    let Some(gone) = name.strip_prefix(".wh.") else { return Ok(false) };
    remove_any(&dir.join(gone))?;
    Ok(true)
}

fn remove_any(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(fs::remove_dir_all(path)?),
        Ok(_) => Ok(fs::remove_file(path)?),
        Err(_) => Ok(()),
    }
}
