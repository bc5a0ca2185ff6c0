use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fs_err as fs;
use sandbox_model::{ByteSize, SandboxName, VolumeName};
use sandbox_state::{Layout, ProjectState, read_record};

use crate::{Context, Result, owner};

/// One home volume, as a table shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// As its file is called, without `.ext4`.
    pub name: VolumeName,
    /// Absolute, on the host.
    pub path: PathBuf,
    /// `disk`: there is no other kind yet.
    pub kind: &'static str,
    /// What it can hold; `None` where that cannot be told.
    pub capacity: Option<ByteSize>,
    /// Bytes on disk.
    pub used: ByteSize,
    /// Seconds since 1970.
    pub created: i64,
    /// The sandbox whose state file names it as current.
    pub current_of: Option<SandboxName>,
    /// Sandboxes that mount it, whatever they do.
    pub mounted_by: Vec<SandboxName>,
    /// Why it cannot be used, where that shows from outside.
    pub problem: Option<String>,
}

/// A file in the folder of home volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFile {
    pub name: VolumeName,
    pub path: PathBuf,
    pub capacity: Option<ByteSize>,
    pub used: ByteSize,
    pub created: i64,
    pub problem: Option<String>,
}

/// Every home volume of this user, newest first. One that is broken is a row with a problem.
pub fn list(context: &Context<'_>) -> Result<Vec<Volume>> {
    let sandboxes = context.runtime.list()?.sandboxes;
    let mounted_by = |path: &Path| {
        let using = sandboxes.iter().filter(|info| info.spec.home.path == path);
        using.map(|info| info.spec.name.clone()).collect()
    };
    let files = files(&context.layout)?;
    let volumes = files.into_iter().map(|file| Volume {
        current_of: current_of(context, &file.name),
        mounted_by: mounted_by(&file.path),
        kind: "disk",
        capacity: file.capacity,
        used: file.used,
        created: file.created,
        problem: file.problem,
        path: file.path,
        name: file.name,
    });
    let mut volumes: Vec<Volume> = volumes.collect();
    volumes.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| b.name.cmp(&a.name)));
    Ok(volumes)
}

fn current_of(context: &Context<'_>, name: &VolumeName) -> Option<SandboxName> {
    let (target, _) = owner::of_volume(name)?;
    let files = context.layout.sandbox_state(&target.checkout, target.agent);
    let state = read_record::<ProjectState>(&files.state()).ok()??;
    (state.home_volume.as_ref() == Some(name)).then(|| target.name())
}

/// What is in the folder of home volumes. Files with other names, and volumes being made, are none.
pub fn files(layout: &Layout) -> Result<Vec<VolumeFile>> {
    let entries = match fs::read_dir(layout.volumes()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".ext4")?.parse().ok());
        if let Some(name) = name {
            files.extend(file(name, path)?);
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// `None` when it is gone meanwhile.
fn file(name: VolumeName, path: PathBuf) -> Result<Option<VolumeFile>> {
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let made = owner::of_volume(&name).map_or_else(|| metadata.ctime(), |(_, stamp)| stamp);
    let problem = problem(&path, &metadata);
    Ok(Some(VolumeFile {
        name,
        capacity: metadata.is_file().then(|| ByteSize::from_bytes(metadata.len())),
        used: ByteSize::from_bytes(metadata.blocks() * 512),
        created: made,
        problem,
        path,
    }))
}

/// ext2fs.h, `EXT2_SUPER_MAGIC`: two bytes, 56 behind the superblock's begin at 1024.
const MAGIC: ([u8; 2], u64) = ([0x53, 0xef], 1024 + 56);

fn problem(path: &Path, metadata: &std::fs::Metadata) -> Option<String> {
    if !metadata.is_file() {
        return Some("it is not a file".into());
    }
    let me = rustix::process::geteuid().as_raw();
    if metadata.uid() != me {
        return Some(format!("it belongs to user {}, not to user {me}", metadata.uid()));
    }
    let mut found = [0; 2];
    match fs::File::open(path).and_then(|file| file.file().read_exact_at(&mut found, MAGIC.1)) {
        Ok(()) if found == MAGIC.0 => None,
        Ok(()) => Some("it holds no ext4 file system".into()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Some("it is cut off".into()),
        Err(error) => Some(error.to_string()),
    }
}
