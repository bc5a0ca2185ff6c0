//! Adding to a file system what it lacks of a folder, without mounting and without root. What is there
//! already stays as it is.

use std::collections::HashMap;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use super::confined;
use crate::home_volume::{find, well};
use crate::{LifecycleError, Result};

/// One entry of the folder, by its place below it.
struct Entry {
    host: PathBuf,
    /// `/.config/x`.
    inside: String,
    metadata: std::fs::Metadata,
}

/// Puts every file, folder and symbolic link of `home` into the file system in `file`, unless there is
/// something of that name; below what is no folder there, nothing is added. What is new belongs to
/// `owner`, and keeps its mode and its time.
pub fn graft(home: &Path, file: &Path, owner: (u32, u32)) -> Result<()> {
    let mut entries = Vec::new();
    collect(home, "", &mut entries)?;
    let there = look(file, &entries)?;
    let script = script(&entries, &there, owner)?;
    if script.is_empty() {
        return Ok(());
    }
    let commands = file.with_extension("debugfs");
    fs::write(&commands, script)?;
    // It goes on after a command that failed, and ends well; what it says of failures is all there is.
    let output =
        confined::output(Command::new(find("debugfs")?).args(["-w", "-f"]).arg(&commands).arg(file), file)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let problems: Vec<&str> = said.lines().filter(|line| !line.starts_with("debugfs ")).collect();
    if output.status.success() && problems.is_empty() {
        return Ok(());
    }
    Err(LifecycleError::HomeVolume { path: file.into(), problem: problems.join("; ") })
}

/// Brings a file system that was not unmounted into order, as its next mount would.
pub fn settle(file: &Path) -> Result<()> {
    let output = confined::output(Command::new(find("e2fsck")?).args(["-f", "-p"]).arg(file), file)?;
    // e2fsck(8): 1 is "errors corrected", such as a journal that was played back.
    if matches!(output.status.code(), Some(0 | 1)) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let problem = format!("its file system is damaged: {}", said.trim());
    Err(LifecycleError::HomeVolume { path: file.into(), problem })
}

/// Fails unless the file system is in perfect order.
pub fn verify(file: &Path) -> Result<()> {
    let output = confined::output(Command::new(find("e2fsck")?).args(["-f", "-n"]).arg(file), file)?;
    well(&output, file)
}

/// Parents before what is in them.
fn collect(folder: &Path, inside: &str, entries: &mut Vec<Entry>) -> Result<()> {
    let mut children = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    children.sort_by_key(fs::DirEntry::file_name);
    for child in children {
        let host = child.path();
        let name = child.file_name();
        let name = name.to_str().filter(|_| plain(&host)).ok_or_else(|| cannot(&host))?;
        let metadata = fs::symlink_metadata(&host)?;
        let inside = format!("{inside}/{name}");
        let is_dir = metadata.is_dir();
        entries.push(Entry { host: host.clone(), inside: inside.clone(), metadata });
        if is_dir {
            collect(&host, &inside, entries)?;
        }
    }
    Ok(())
}

/// debugfs takes words in double quotes, and a line at a time.
fn plain(path: &Path) -> bool {
    path.to_str().is_some_and(|path| !path.contains(['"', '\n', '\r']))
}

fn cannot(path: &Path) -> LifecycleError {
    let problem = "the image's home has a file with a name that cannot be copied".into();
    LifecycleError::HomeVolume { path: path.into(), problem }
}

/// What there is: whether it is a folder, by its place.
fn look(file: &Path, entries: &[Entry]) -> Result<HashMap<String, bool>> {
    let mut script = String::new();
    for entry in entries {
        writeln!(script, "stat \"{}\"", entry.inside).map_err(std::io::Error::other)?;
    }
    let commands = file.with_extension("debugfs");
    fs::write(&commands, script)?;
    let output = confined::output(Command::new(find("debugfs")?).arg("-f").arg(&commands).arg(file), file)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(LifecycleError::HomeVolume { path: file.into(), problem: said.trim().into() });
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Every command is written before its answer, which for a file that is there begins with its type.
fn parse(said: &str) -> HashMap<String, bool> {
    let mut there = HashMap::new();
    let mut asked = None;
    for line in said.lines() {
        if let Some(path) = line.strip_prefix("debugfs: stat \"").and_then(|rest| rest.strip_suffix('"')) {
            asked = Some(path.to_string());
        } else if line.starts_with("Inode: ")
            && let Some(path) = asked.take()
        {
            there.insert(path, line.contains("Type: directory"));
        }
    }
    there
}

fn script(entries: &[Entry], there: &HashMap<String, bool>, (uid, gid): (u32, u32)) -> Result<String> {
    let mut script = String::new();
    // Folders below which things may be added: those there, and new ones.
    let mut open: HashMap<&str, bool> = HashMap::from([("", true)]);
    for entry in entries {
        let (parent, name) = entry.inside.rsplit_once('/').unwrap_or(("", &entry.inside));
        let is_dir = entry.metadata.is_dir();
        let may = open.get(parent).copied().unwrap_or(false);
        let known = there.get(&entry.inside);
        open.insert(&entry.inside, may && known.copied().unwrap_or(is_dir));
        if !may || known.is_some() {
            continue;
        }
        let make = match &entry.metadata {
            metadata if metadata.is_dir() => format!("mkdir \"{name}\""),
            metadata if metadata.is_file() => format!("write \"{}\" \"{name}\"", entry.host.display()),
            metadata if metadata.is_symlink() => {
                let to = fs::read_link(&entry.host)?;
                let to = to.to_str().filter(|_| plain(&to)).ok_or_else(|| cannot(&entry.host))?;
                format!("symlink \"{name}\" \"{to}\"")
            }
            // A socket or a pipe of the image is nobody's any more.
            _ => continue,
        };
        let write = |script: &mut String| {
            writeln!(script, "cd \"/{}\"", parent.trim_start_matches('/'))?;
            writeln!(script, "{make}")?;
            let mode = entry.metadata.mode();
            let mtime = entry.metadata.mtime();
            for (field, value) in [
                ("uid", uid.to_string()),
                ("gid", gid.to_string()),
                ("mode", format!("0{mode:o}")),
                ("mtime", format!("@{mtime}")),
            ] {
                writeln!(script, "set_inode_field \"{}\" {field} {value}", entry.inside)?;
            }
            std::fmt::Result::Ok(())
        };
        write(&mut script).map_err(std::io::Error::other)?;
    }
    Ok(script)
}
