//! Home volumes: one raw, sparse ext4 file each, filled from an image's home. Made under another name and
//! renamed, so that a volume that exists is a whole one.

use std::fmt::Write;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fs_err as fs;
use sandbox_model::{Digest, GUEST_HOME, VolumeName};
use sandbox_state::{
    Layout, ProjectState, SandboxFiles, Stamp, crash, find_system_tool, make_private_dir, read_record,
};

use crate::{Context, LifecycleError, Result, Target};

/// Volumes being made are in folders with this in front of their sandbox's name.
const ASIDE: &str = ".new-";

/// Capacity of a home. The file is sparse: it takes what is in it, and 5 MB.
const CAPACITY: &str = "64G";

/// The volume that `state` names, or a new one made from the image's home. `owner` is who `dev` is.
///
/// Returns its name and file, and whether it was made now: it may have the very name of one that is gone.
/// The caller holds the boot lock, and records the name.
pub fn ensure(
    context: &Context<'_>,
    target: &Target,
    state: &ProjectState,
    image: &Digest,
    owner: (u32, u32),
) -> Result<(VolumeName, PathBuf, bool)> {
    if let Some(name) = &state.home_volume {
        let path = context.layout.volume(name);
        match fs::metadata(&path) {
            Ok(found) if found.is_file() => return Ok((name.clone(), path, false)),
            Ok(_) => {
                let problem = "something else than a file is in its place".into();
                return Err(LifecycleError::HomeVolume { path, problem });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        context.reporter.warning(&format!(
            "the recorded home volume {name} is gone ({}); making a new one",
            path.display()
        ));
    }
    let step = context.reporter.begin("making the home volume");
    let (name, path) = create(context, target, image, owner)?;
    step.finish(Some(name.as_str()));
    Ok((name, path, true))
}

/// A new volume with the image's home and nothing else. The caller holds the boot lock.
pub fn create(
    context: &Context<'_>,
    target: &Target,
    image: &Digest,
    owner: (u32, u32),
) -> Result<(VolumeName, PathBuf)> {
    let unfinished = begin(context, target, image, owner)?;
    fill(&unfinished, owner)?;
    finish(context, target, &unfinished)
}

/// Makes the file system, with the image's home in it.
pub fn fill(unfinished: &Unfinished, owner: (u32, u32)) -> Result<()> {
    make_file_system(&unfinished.home, &unfinished.file, owner)?;
    if unfinished.foreign {
        change_owners(&unfinished.home, &unfinished.file, owner)?;
    }
    Ok(())
}

/// A volume being made, in a folder that goes with this value.
pub struct Unfinished {
    work: tempfile::TempDir,
    /// The image's home.
    pub home: PathBuf,
    /// Where the file system is to be.
    pub file: PathBuf,
    /// Something in `home` could not be given to its owner.
    pub foreign: bool,
    _known: Known,
}

/// Folders of this process that a signal must not leave behind.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

struct Known(PathBuf);

impl Known {
    fn new(folder: &Path) -> Self {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(folder.into());
        Self(folder.into())
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|folder| *folder != self.0);
    }
}

/// Clears away what this process has made of new home volumes: for the moment before it ends by a signal.
pub fn abandon() {
    for folder in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = fs::remove_dir_all(folder);
    }
}

impl Unfinished {
    /// What goes with it, when it is done or given up.
    pub fn folder(&self) -> &Path {
        self.work.path()
    }
}

/// Takes the home out of an image. The caller holds the boot lock.
pub fn begin(
    context: &Context<'_>,
    target: &Target,
    image: &Digest,
    owner: (u32, u32),
) -> Result<Unfinished> {
    let volumes = context.layout.volumes();
    make_private_dir(&volumes)?;
    // The boot lock makes this prefix ours alone: what is there is what a killed process left. The rest of
    // the name is another each time, because a tool that it started may still be writing.
    let aside = format!("{ASIDE}{}.", target.name());
    sweep(&volumes, &aside)?;
    let work = tempfile::Builder::new()
        .prefix(&aside)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(&volumes)?;
    let known = Known::new(work.path());
    crash::point("a home volume is begun");
    let home = work.path().join("home");
    context.runtime.export_image_dir(image, GUEST_HOME, &home)?;
    let foreign = give_to(&home, owner)?;
    Ok(Unfinished { file: work.path().join("home.ext4"), home, foreign, work, _known: known })
}

/// Makes the finished file a volume.
pub fn finish(
    context: &Context<'_>,
    target: &Target,
    unfinished: &Unfinished,
) -> Result<(VolumeName, PathBuf)> {
    crash::point("a home volume is filled");
    fs::set_permissions(&unfinished.file, std::fs::Permissions::from_mode(0o600))?;
    fs::File::open(&unfinished.file)?.sync_all()?;
    place(context, target, &unfinished.file)
}

/// Removes a new home that could not be recorded: nobody would find it. It stays where the record may name it all the
/// same, because only the folder's sync failed.
pub fn remove_unrecorded(files: &SandboxFiles, home: &VolumeName, path: &Path) -> Result<()> {
    let names_it = |now: ProjectState| now.home_volume.as_ref() == Some(home);
    if read_record(&files.state()).is_ok_and(|record| !record.is_some_and(names_it)) {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The folders of volumes being made, or left by a killed command, and whose they are.
pub fn unfinished(layout: &Layout) -> Result<Vec<(Target, PathBuf)>> {
    let entries = match fs::read_dir(layout.volumes()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| {
            let (sandbox, _) = name.strip_prefix(ASIDE)?.rsplit_once('.')?;
            Target::from_name(&sandbox.parse().ok()?)
        });
        if let (Some(owner), true) = (owner, entry.file_type()?.is_dir()) {
            found.push((owner, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn sweep(volumes: &Path, aside: &str) -> Result<()> {
    for entry in fs::read_dir(volumes)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(aside) {
            continue;
        }
        let mut removed = fs::remove_dir_all(entry.path());
        for _ in 0..50 {
            // Such a tool may make a file in it just now.
            let busy = |error: &std::io::Error| error.kind() == ErrorKind::DirectoryNotEmpty;
            if !removed.as_ref().is_err_and(busy) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            removed = fs::remove_dir_all(entry.path());
        }
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Gives the finished file its name; two volumes made within one second get different ones.
fn place(context: &Context<'_>, target: &Target, file: &Path) -> Result<(VolumeName, PathBuf)> {
    let stamp = Stamp::for_name(Stamp::now());
    let mut name = VolumeName::new(&target.checkout, target.agent, &stamp);
    for suffix in 2.. {
        let problem = |problem: String| LifecycleError::HomeVolume { path: file.into(), problem };
        let free = name.map_err(|error| problem(error.to_string()))?;
        let path = context.layout.volume(&free);
        match std::fs::hard_link(file, &path) {
            Ok(()) => {
                fs::File::open(context.layout.volumes())?.sync_all()?;
                crash::point("a home volume has its name");
                return Ok((free, path));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                name = VolumeName::new(&target.checkout, target.agent, &format!("{stamp}-{suffix}"));
            }
            Err(error) => return Err(problem(error.to_string())),
        }
    }
    unreachable!("the loop ends only by returning")
}

/// Makes everything below `dir` belong to `owner`, as root. Anyone else cannot; then the answer says
/// whether there is something that belongs to another.
fn give_to(dir: &Path, owner: (u32, u32)) -> Result<bool> {
    let root = rustix::process::geteuid().is_root();
    let mut foreign = false;
    walk(dir, &mut |path, metadata| {
        if (metadata.uid(), metadata.gid()) == owner {
            return Ok(());
        }
        foreign = !root;
        if root {
            lchown(path, Some(owner.0), Some(owner.1))?;
            // Changing the owner clears set-id bits; an image's home is kept as it is.
            if !metadata.is_symlink() {
                fs::set_permissions(path, metadata.permissions())?;
            }
        }
        Ok(())
    })?;
    Ok(foreign)
}

fn walk(
    path: &Path,
    visit: &mut dyn FnMut(&Path, &std::fs::Metadata) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), visit)?;
        }
    }
    visit(path, &metadata)
}

fn make_file_system(home: &Path, file: &Path, (uid, gid): (u32, u32)) -> Result<()> {
    let mut command = Command::new(find("mke2fs")?);
    // Blocks for root alone would be lost: nothing of root's lives here.
    command.args(["-q", "-F", "-t", "ext4", "-m", "0", "-J", "size=64", "-L", "home", "-E"]);
    command.arg(format!("root_owner={uid}:{gid},lazy_itable_init=1,lazy_journal_init=1"));
    command.arg("-d").arg(home).arg(file).arg(CAPACITY);
    run(&mut command, file)?;
    // A folder that no home has; a repair of the file system makes it again where it needs one.
    run(Command::new(find("debugfs")?).args(["-w", "-R", "rmdir lost+found"]).arg(file), file)
}

/// Sets owners inside the file system, for a caller whose own ids are not `dev`'s.
fn change_owners(home: &Path, file: &Path, (uid, gid): (u32, u32)) -> Result<()> {
    let mut script = String::new();
    walk(home, &mut |path, _| {
        let inside = path.strip_prefix(home).unwrap_or(path);
        let Some(inside) = inside.to_str().filter(|inside| !inside.contains(['"', '\n'])) else {
            let problem =
                format!("the image's home has a file {} with a name that cannot be set", path.display());
            return Err(std::io::Error::other(problem));
        };
        for (field, id) in [("uid", uid), ("gid", gid)] {
            writeln!(script, "set_inode_field \"/{inside}\" {field} {id}").map_err(std::io::Error::other)?;
        }
        Ok(())
    })?;
    let commands = file.with_extension("debugfs");
    fs::write(&commands, script)?;
    run(Command::new(find("debugfs")?).arg("-w").arg("-f").arg(&commands).arg(file), file)
}

/// A tool for file systems.
pub fn find(program: &str) -> Result<PathBuf> {
    find_system_tool(program).map_err(|error| {
        sandbox_runtime::RuntimeError::MissingProgram { program: program.into(), problem: error.to_string() }
            .into()
    })
}

fn run(command: &mut Command, file: &Path) -> Result<()> {
    well(&command.output()?, file)
}

/// Fails unless the program ended well.
pub fn well(output: &Output, file: &Path) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(LifecycleError::HomeVolume {
        path: file.into(),
        problem: format!("{}: {}", output.status, said.trim()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(file: &Path, path: &str) -> String {
        let output = Command::new(find("debugfs").unwrap())
            .arg("-R")
            .arg(format!("stat \"{path}\""))
            .arg(file)
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let line =
            text.lines().find(|line| line.contains("User:")).unwrap_or_else(|| panic!("{path}: {text}"));
        let mut words = line.split_whitespace().skip(1).step_by(2);
        format!("{}:{}", words.next().unwrap(), words.next().unwrap())
    }

    #[test]
    fn a_file_system_holds_the_home_and_belongs_to_dev() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir_all(home.join("a folder")).unwrap();
        fs::write(home.join("a folder/x"), "1").unwrap();
        std::os::unix::fs::symlink("/nowhere", home.join("link")).unwrap();
        let file = dir.path().join("home.ext4");
        let owner = (4711, 4712);
        let foreign = give_to(&home, owner).unwrap();
        make_file_system(&home, &file, owner).unwrap();
        if foreign {
            change_owners(&home, &file, owner).unwrap();
        }
        let listed =
            Command::new(find("debugfs").unwrap()).args(["-R", "ls -p /"]).arg(&file).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains("/a folder/") && !listed.contains("lost+found"), "{listed}");
        for path in ["/", "/a folder", "/a folder/x", "/link"] {
            assert_eq!(owners(&file, path), "4711:4712", "{path}");
        }
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!(metadata.len(), 64 << 30);
        assert!(metadata.blocks() * 512 < 16 << 20, "{} blocks", metadata.blocks());
    }

    #[test]
    fn owners_are_set_inside_the_file_where_they_cannot_be_set_outside() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir_all(home.join("a folder")).unwrap();
        fs::write(home.join("a folder/x"), "1").unwrap();
        let file = dir.path().join("home.ext4");
        make_file_system(&home, &file, (4711, 4712)).unwrap();
        assert_ne!(owners(&file, "/a folder/x"), "4711:4712");
        change_owners(&home, &file, (4711, 4712)).unwrap();
        assert_eq!(owners(&file, "/a folder/x"), "4711:4712");
    }

    #[test]
    fn a_file_system_that_cannot_be_made_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let error = make_file_system(&dir.path().join("missing"), &dir.path().join("f"), (1, 1)).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    }

    #[test]
    fn a_home_that_the_record_names_stays() {
        let dir = tempfile::tempdir().unwrap();
        let environment = sandbox_state::Environment { home: Some(dir.path().into()), ..Default::default() };
        let layout = Layout::new(&environment).unwrap();
        let checkout = sandbox_model::CheckoutSlug::new("project", dir.path());
        let files = layout.sandbox_state(&checkout, "opencode".parse().unwrap());
        let (home, path): (VolumeName, _) = ("home-1".parse().unwrap(), dir.path().join("home-1.ext4"));
        let removed = |recorded: Option<&str>| {
            fs::write(&path, "").unwrap();
            let home_volume = recorded.map(|name| name.parse().unwrap());
            let state = ProjectState { home_volume, ..ProjectState::default() };
            sandbox_state::write_record(&files.state(), &state).unwrap();
            remove_unrecorded(&files, &home, &path).unwrap();
            !path.exists()
        };
        assert!(!removed(Some("home-1")), "only the sync of its folder has failed");
        assert!(removed(Some("home-2")) && removed(None), "nobody would find it");
        fs::write(&path, "").unwrap();
        fs::write(files.state(), "broken").unwrap();
        remove_unrecorded(&files, &home, &path).unwrap();
        assert!(path.exists(), "nobody knows");
    }
}
