use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sandbox_lifecycle::Project;
use sandbox_state::{Approval, ApprovalsRecord, Layout, Stamp, read_record, write_record};

use super::Entry;
use crate::error::CommandError;

/// What was approved before.
#[derive(Debug)]
pub struct Store {
    /// `None` where the checkout contains the state folder, so that the guest could approve things itself.
    path: Option<PathBuf>,
    record: ApprovalsRecord,
}

impl Store {
    pub fn open(layout: &Layout, project: &Project) -> Result<Self, CommandError> {
        let path = (!contains(&project.root, &layout.state)).then(|| layout.approvals(&project.checkout));
        let record = path.as_deref().map(read_record).transpose()?.flatten().unwrap_or_default();
        Ok(Self { path, record })
    }

    pub fn has(&self, entry: &Entry) -> bool {
        self.record.approved.iter().any(|approval| approval.sha256 == entry.sha256())
    }

    /// Approvals outlive this process.
    pub const fn lasts(&self) -> bool {
        self.path.is_some()
    }

    /// What the files say no more is approved no more.
    pub fn forget_all_but(&mut self, entries: &[Entry]) -> Result<(), CommandError> {
        let wanted: BTreeSet<&str> = entries.iter().map(Entry::sha256).collect();
        let before = self.record.approved.len();
        self.record.approved.retain(|approval| wanted.contains(approval.sha256.as_str()));
        if self.record.approved.len() < before { self.save() } else { Ok(()) }
    }

    pub fn approve(&mut self, entries: &[Entry]) -> Result<(), CommandError> {
        // Something else may have been approved while a person was asked.
        if let Some(path) = &self.path {
            self.record = read_record(path)?.unwrap_or_default();
        }
        let at = Stamp::now();
        let new = entries.iter().filter(|entry| !self.has(entry));
        let new: Vec<Approval> = new
            .map(|entry| Approval { key: entry.key().into(), sha256: entry.sha256().into(), at })
            .collect();
        self.record.approved.extend(new);
        self.save()
    }

    fn save(&self) -> Result<(), CommandError> {
        if let Some(path) = &self.path {
            write_record(path, &self.record)?;
        }
        Ok(())
    }
}

/// Both may be links, and the state folder need not exist yet.
pub fn contains(root: &Path, state: &Path) -> bool {
    let root = root.canonicalize().unwrap_or_else(|_| root.into());
    state.starts_with(&root)
        || state
            .ancestors()
            .find_map(|path| path.canonicalize().ok())
            .is_some_and(|real| real.starts_with(&root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_in_the_checkout_is_noticed_through_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs_err::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, dir.path().join("link")).unwrap();
        assert!(contains(&root, &root.join("state/deep")));
        assert!(contains(&root, &dir.path().join("link/state/deep")));
        assert!(!contains(&root, &dir.path().join("root-2/state")));
    }
}
