use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use sandbox_model::{ByteSize, ExecSpec, ExecUser};

use super::check::{check, check_eq};
use super::sandbox::{Sandbox, read_text, text};
use super::{Case, Harness, Outcome, Power};

pub(super) const CASES: &[Case] = &[
    Case::core("workspace_guest_writes_are_the_owners", guest_writes).borrowing(),
    Case::core("workspace_host_edits_are_seen_within_a_second", host_edits).borrowing(),
    Case::core("workspace_names_change_on_both_sides", names_change).borrowing(),
    Case::with(Power::WorkspaceQuota, "workspace_quota", quota),
];

fn guest_writes(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let workspace = &sandbox.spec.workspace;
    sandbox.sh("mkdir -p made/deep && echo dev > made/deep/file && ln -s deep made/link")?;
    let mut spec = ExecSpec::new(["sh", "-c", "echo root > by-root"]);
    spec.user = ExecUser::Root;
    check!(sandbox.exec(&spec)?.status.success(), "root cannot write");
    check_eq!(read_text(&sandbox.host("made/deep/file"))?, "dev\n", "a file of the guest");
    check_eq!(fs::read_link(sandbox.host("made/link"))?.to_str(), Some("deep"), "a link of the guest");
    for path in ["made", "made/deep", "made/deep/file", "made/link", "by-root"] {
        let owner = fs::symlink_metadata(sandbox.host(path))?;
        check_eq!(
            (owner.uid(), owner.gid()),
            (workspace.host_uid, workspace.host_gid),
            "owner of {path} on the host"
        );
    }
    if sandbox.runtime().capabilities().guest_root {
        let seen = sandbox.sh("stat -c %U:%u made/deep/file")?;
        check_eq!(seen, format!("dev:{}", workspace.guest_uid), "owner in the guest");
    }
    sandbox.sh("printf '#!/bin/sh\\necho ran' > tool && chmod 755 tool && ./tool")?;
    check_eq!(fs::metadata(sandbox.host("tool"))?.mode() & 0o777, 0o755, "mode on the host");
    Ok(())
}

/// A guest command that has looked at something, looks again and again, and says when it changed.
fn watch(sandbox: &Sandbox<'_>, what: &str, until: &str, change: impl FnOnce() -> Outcome) -> Outcome {
    let script = format!(
        "{until} && echo already; echo ready; for n in $(seq 1 400); do if {until}; then echo seen; exit; fi; sleep 0.02; done; echo never"
    );
    let mut command = sandbox.live(&ExecSpec::new(["sh", "-c", &script]))?;
    command.expect("ready")?;
    check!(!text(&command.stdout).contains("already"), "{what}: it was so before the change");
    // Whatever the guest keeps, it keeps by now.
    std::thread::sleep(Duration::from_millis(200));
    let changed = Instant::now();
    change()?;
    command.expect("seen")?;
    let after = changed.elapsed();
    check!(after < Duration::from_secs(1) + sandbox.harness.news_delay(), "{what} was seen after {after:?}");
    Ok(())
}

fn host_edits(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    fs::write(sandbox.host("file"), "old text")?;
    let write = |path: &'static str, content: &'static str| {
        let path = sandbox.host(path);
        move || -> Outcome { Ok(fs::write(path, content)?) }
    };
    watch(&sandbox, "an edit", "grep -q new file", write("file", "new text"))?;
    watch(
        &sandbox,
        "an edit that makes it longer",
        "grep -q longer file",
        write("file", "a much longer text"),
    )?;
    watch(&sandbox, "a new file", "test -e fresh", write("fresh", "x"))?;
    watch(&sandbox, "a replaced file", "grep -q replaced file", || {
        fs::write(sandbox.host("file.tmp"), "replaced")?;
        Ok(fs::rename(sandbox.host("file.tmp"), sandbox.host("file"))?)
    })
}

fn names_change(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    fs::write(sandbox.host("a"), "a")?;
    sandbox.sh("test \"$(cat a)\" = a && mv a b && mkdir dir && mv b dir/c && echo d > d && rm d")?;
    check_eq!(read_text(&sandbox.host("dir/c"))?, "a", "what the guest moved");
    for gone in ["a", "b", "d"] {
        check!(!sandbox.host(gone).exists(), "{gone} is still on the host");
    }
    sandbox.sh("rm -r dir")?;
    check!(!sandbox.host("dir").exists(), "a folder that the guest removed is on the host");
    fs::write(sandbox.host("x"), "x")?;
    watch(&sandbox, "a rename", "test -e y -a ! -e x", || {
        Ok(fs::rename(sandbox.host("x"), sandbox.host("y"))?)
    })?;
    watch(&sandbox, "a removal", "test ! -e y", || Ok(fs::remove_file(sandbox.host("y"))?))
}

fn quota(harness: &dyn Harness) -> Outcome {
    let mut sandbox = Sandbox::plan(harness)?;
    // What is there does not count.
    fs::write(sandbox.host("before"), vec![1; 40 << 20])?;
    sandbox.spec.workspace.quota = ByteSize::mib(32);
    sandbox.create()?;
    sandbox.runtime().start(sandbox.name())?;
    sandbox.sh("head -c 8M /dev/zero > small && sync small")?;
    let full = sandbox.try_sh("head -c 48M /dev/zero > big && sync big")?;
    check!(!full.status.success(), "48 MiB went into a quota of 32");
    check!(text(&full.stderr).contains("No space left on device"), "another error: {}", text(&full.stderr));
    let total = fs::metadata(sandbox.host("big"))?.len();
    check!(total <= 32 << 20, "{total} bytes were written");
    check_eq!(fs::metadata(sandbox.host("before"))?.len(), 40 << 20, "a file that was there");
    sandbox.sh("rm big && head -c 16M /dev/zero > again && sync again")?;
    Ok(())
}
