use sandbox_model::{ExecSpec, ExecUser};

use super::check::{check, check_eq};
use super::sandbox::{Sandbox, text};
use super::{Case, Harness, Outcome, Power};

pub(super) const CASES: &[Case] = &[
    Case::core("home_outlives_stop_and_remove", home),
    Case::with(Power::GuestRoot, "tmp_is_a_tmpfs_of_its_size", tmp),
    Case::with(Power::GuestRoot, "root_disk_outlives_stop_but_not_remove", root_disk),
];

fn home(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    sandbox.sh("mkdir \"$HOME/dir\" && echo kept > \"$HOME/dir/file\" && chmod 600 \"$HOME/dir/file\"")?;
    let look = "cat \"$HOME/dir/file\"; stat -c %a \"$HOME/dir/file\"";
    sandbox.restart()?;
    check_eq!(sandbox.sh(look)?, "kept\n600", "after stop and start");
    sandbox.runtime().stop(sandbox.name(), std::time::Duration::from_secs(10))?;
    sandbox.runtime().remove(sandbox.name())?;
    sandbox.create()?;
    sandbox.runtime().start(sandbox.name())?;
    check_eq!(sandbox.sh(look)?, "kept\n600", "after remove and create");
    let other = Sandbox::started(harness)?;
    check!(!other.try_sh("test -e \"$HOME/dir\"")?.status.success(), "another home has it too");
    Ok(())
}

fn tmp(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    check_eq!(sandbox.sh("stat -f -c %T /tmp")?, "tmpfs", "file system of /tmp");
    let size = sandbox.sh("df -k /tmp | tail -n 1 | awk '{ print $2 }'")?;
    check_eq!(size, (sandbox.spec.tmp.bytes() / 1024).to_string(), "size of /tmp in KiB");
    check_eq!(sandbox.sh("stat -c %a /tmp")?, "1777", "mode of /tmp");
    sandbox.sh("printf '#!/bin/sh\\necho ran' > /tmp/tool && chmod 755 /tmp/tool && /tmp/tool")?;
    sandbox.restart()?;
    check_eq!(sandbox.sh("ls -A /tmp")?, "", "what is in /tmp after a restart");
    Ok(())
}

fn root_disk(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    let as_root = |script: &str| -> Outcome<_> {
        let mut spec = ExecSpec::new(["sh", "-c", script]);
        spec.user = ExecUser::Root;
        Ok(text(&sandbox.exec(&spec)?.stdout).trim().to_string())
    };
    let look = "cat /var/lib/mark 2>/dev/null || echo none; test -e /etc/passwd && echo whole";
    check_eq!(as_root(look)?, "none\nwhole", "at first");
    as_root("echo kept > /var/lib/mark")?;
    sandbox.restart()?;
    check_eq!(as_root(look)?, "kept\nwhole", "after stop and start");
    let used = sandbox.runtime().disk_usage(sandbox.name())?.bytes();
    check!(used < sandbox.spec.root_disk.bytes() / 2, "a nearly empty root disk takes {used} bytes");
    sandbox.runtime().stop(sandbox.name(), std::time::Duration::from_secs(10))?;
    sandbox.runtime().remove(sandbox.name())?;
    sandbox.create()?;
    sandbox.runtime().start(sandbox.name())?;
    check_eq!(as_root(look)?, "none\nwhole", "after remove and create");
    Ok(())
}
