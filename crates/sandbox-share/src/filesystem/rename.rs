//! Renaming, within and across directories, over another file, and as an exchange.

use std::ffi::CStr;
use std::io;

use virtiofsd::filesystem::Context;

use super::ShareFs;
use super::remove::Named;
use crate::nodes::NodeId;
use crate::policy::{self, Change};
use crate::quota::BLOCK;

impl ShareFs {
    pub(super) fn rename_entry(
        &self,
        ctx: Context,
        from: (NodeId, &CStr),
        to: (NodeId, &CStr),
        flags: u32,
    ) -> io::Result<()> {
        policy::check_name(from.1)?;
        policy::check_name(to.1)?;
        policy::check_rename(flags)?;
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let source_dir = self.pin(ctx, from.0)?;
        let target_dir = self.pin(ctx, to.0)?;
        self.judge(&Change::Rename { from, to, exchange })?;
        let source = self.file_named(ctx, &source_dir, from.1)?;
        let target = self.file_named(ctx, &target_dir, to.1).ok();
        self.metered(
            target_dir.inner,
            |_| BLOCK,
            || self.inner.rename(ctx, source_dir.inner, from.1, target_dir.inner, to.1, flags),
        )?;
        match target {
            // Two names of one file: such a rename does nothing.
            Some(target) if target.found.inner == source.found.inner => {}
            Some(target) if exchange => {
                self.moved(&source, to);
                self.moved(&target, from);
            }
            Some(target) => {
                self.lost_name(&target, to.0, to.1);
                self.moved(&source, to);
            }
            None => self.moved(&source, to),
        }
        Ok(())
    }

    fn moved(&self, file: &Named<'_>, to: (NodeId, &CStr)) {
        if let Some(node) = file.node {
            self.nodes().seen_at(node, to.0, to.1);
        }
    }
}
