//! What of an assembly has to be sent, given what the home has already. Pure.

use std::collections::{BTreeMap, BTreeSet};

use sandbox_model::VolumeName;
use sandbox_state::ProvisionRecord;
use sha2::{Digest, Sha256};

use super::assembly::{Assembly, Entry};

/// One transfer into the guest's home.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Files to remove first, because their source is gone.
    pub removed: Vec<String>,
    /// Likewise, because they would hide the merged document.
    pub hidden: Vec<String>,
    /// Folders that may be empty after that, the deepest first.
    pub emptied: Vec<String>,
    /// Files to write, and folders whose permission bits are set.
    pub written: Vec<String>,
    /// A tar archive of what is written. The same files give the same bytes.
    pub archive: Vec<u8>,
    /// What the home has afterwards.
    pub files: BTreeMap<String, String>,
}

impl Bundle {
    /// Everything, where the record is of another home.
    pub fn new(
        assembly: &Assembly,
        record: &ProvisionRecord,
        home: Option<&VolumeName>,
    ) -> std::io::Result<Self> {
        let same_home = record.home_volume.as_ref() == home;
        let mut bundle = Self::default();
        let mut archive = tar::Builder::new(Vec::new());
        for (path, mode) in &assembly.folders {
            let hash = format!("folder {mode:o}");
            if !same_home || record.files.get(path) != Some(&hash) {
                append(&mut archive, &format!("{path}/"), *mode, &[])?;
                bundle.written.push(path.clone());
            }
            bundle.files.insert(path.clone(), hash);
        }
        for (path, entry) in &assembly.files {
            let hash = hash(entry);
            if !same_home || record.files.get(path) != Some(&hash) {
                append(&mut archive, path, entry.mode, &entry.content)?;
                bundle.written.push(path.clone());
            }
            bundle.files.insert(path.clone(), hash);
        }
        bundle.archive = archive.into_inner()?;
        let gone = record.files.keys().filter(|path| !bundle.files.contains_key(*path));
        let (folders, files): (Vec<_>, Vec<_>) =
            gone.cloned().partition(|path| record.files[path].starts_with("folder "));
        bundle.emptied = emptied(&files, folders);
        bundle.removed = files;
        if !bundle.written.is_empty() {
            bundle.hidden.clone_from(&assembly.hidden);
        }
        Ok(bundle)
    }

    /// The home has it all.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty()
    }

    /// Whether anything below `folder` changes.
    pub fn touches(&self, folder: &str) -> bool {
        let below = |path: &String| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        self.written.iter().chain(&self.removed).any(below)
    }
}

/// The folders of these files and those given, but none directly in the home: those are not ours alone.
fn emptied(files: &[String], folders: Vec<String>) -> Vec<String> {
    let mut all: BTreeSet<String> = folders.into_iter().collect();
    for file in files {
        let mut path = file.as_str();
        while let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| parent.contains('/')) {
            all.insert(parent.to_string());
            path = parent;
        }
    }
    let mut all: Vec<String> = all.into_iter().collect();
    all.sort_by_key(|path| std::cmp::Reverse(path.matches('/').count()));
    all
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, content: &[u8]) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    // Not 1970: some tools take that for "unknown".
    header.set_mtime(1_000_000_000);
    if path.ends_with('/') {
        header.set_entry_type(tar::EntryType::Directory);
    }
    archive.append_data(&mut header, path, content)
}

fn hash(entry: &Entry) -> String {
    let mut hash = Sha256::new();
    hash.update(entry.mode.to_be_bytes());
    hash.update(&entry.content);
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembly(files: &[(&str, &str)]) -> Assembly {
        let mut assembly = Assembly::default();
        for (path, content) in files {
            assembly.files.insert((*path).into(), Entry { mode: 0o644, content: (*content).into() });
        }
        assembly
    }

    #[test]
    fn only_what_differs_is_sent_and_what_is_gone_goes() {
        let home: VolumeName = "home-1".parse().unwrap();
        let first = assembly(&[(".config/x/a", "1"), (".config/x/b", "2"), (".rc", "3")]);
        let bundle = Bundle::new(&first, &ProvisionRecord::default(), Some(&home)).unwrap();
        assert_eq!(bundle.written, [".config/x/a", ".config/x/b", ".rc"]);
        assert_eq!(bundle.removed, Vec::<String>::new());
        let record = ProvisionRecord {
            home_volume: Some(home.clone()),
            files: bundle.files,
            ..ProvisionRecord::default()
        };
        assert!(Bundle::new(&first, &record, Some(&home)).unwrap().is_empty());

        let second = assembly(&[(".config/x/a", "1"), (".rc", "4")]);
        let bundle = Bundle::new(&second, &record, Some(&home)).unwrap();
        assert_eq!(
            (bundle.written.clone(), bundle.removed.clone()),
            (vec![".rc".into()], vec![".config/x/b".into()])
        );
        assert_eq!(bundle.emptied, [".config/x"]);
        assert!(bundle.touches(".config/x") && !bundle.touches(".pi"));
        let other: VolumeName = "home-2".parse().unwrap();
        assert_eq!(Bundle::new(&second, &record, Some(&other)).unwrap().written.len(), 2);
    }

    #[test]
    fn bits_alone_are_a_change() {
        let mut one = assembly(&[("bin/x", "1")]);
        one.folders.insert("bin".into(), 0o755);
        let bundle = Bundle::new(&one, &ProvisionRecord::default(), None).unwrap();
        let record = ProvisionRecord { files: bundle.files, ..ProvisionRecord::default() };
        one.files.get_mut("bin/x").unwrap().mode = 0o755;
        one.folders.insert("bin".into(), 0o700);
        assert_eq!(Bundle::new(&one, &record, None).unwrap().written, ["bin", "bin/x"]);
    }
}
