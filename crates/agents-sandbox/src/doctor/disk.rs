use std::path::Path;

use sandbox_model::ByteSize;
use sandbox_state::Layout;

use super::Finding;

const CHECK: &str = "disk space";

/// What one of our folders needs.
struct Need<'a> {
    dir: &'a Path,
    what: &'static str,
    /// Nothing works with less.
    least: ByteSize,
    /// With less it works for now.
    wanted: ByteSize,
}

/// What a file system has left for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    bytes: ByteSize,
    /// `false` where the file system counts files and has no more of them.
    files: bool,
}

pub fn check(layout: &Layout) -> Finding {
    let need = |dir, what, least, wanted| Need { dir, what, least, wanted };
    let needs = [
        // An image with an agent, its unpacked copy, and a home.
        need(layout.data.as_path(), "a first image and a home", ByteSize::mib(128), ByteSize::gib(5)),
        need(layout.state.as_path(), "records and locks", ByteSize::mib(1), ByteSize::mib(16)),
    ];
    let mut findings = Vec::new();
    for need in &needs {
        match left(need.dir) {
            Ok(left) => findings.push(judge(need, left)),
            Err(problem) => return Finding::note(CHECK, format!("unknown: {problem}"), "look at `df`"),
        }
    }
    // The worst counts; where all are good, that of the large things.
    let mut worst = findings.remove(0);
    for finding in findings {
        if finding.grade > worst.grade {
            worst = finding;
        }
    }
    worst
}

/// Of the nearest folder that is there.
fn left(dir: &Path) -> Result<Left, String> {
    let nearest = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let disk = rustix::fs::statvfs(nearest).map_err(|error| error.to_string())?;
    Ok(Left {
        bytes: ByteSize::from_bytes(disk.f_bavail.saturating_mul(disk.f_frsize)),
        files: disk.f_files == 0 || disk.f_favail > 0,
    })
}

fn judge(need: &Need<'_>, left: Left) -> Finding {
    let dir = need.dir.display();
    if !left.files {
        return Finding::missing(CHECK, format!("no more files can be made for {dir}"), "remove some there");
    }
    let detail = format!("{} free for {dir}", left.bytes.human());
    let hint = |size: ByteSize| format!("{} need about {}", need.what, size.human());
    if left.bytes < need.least {
        return Finding::missing(CHECK, detail, hint(need.least));
    }
    if left.bytes < need.wanted {
        return Finding::note(CHECK, detail, hint(need.wanted));
    }
    Finding::good(CHECK, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Grade;

    #[test]
    fn too_little_is_missing_and_little_is_a_note() {
        let need = Need {
            dir: Path::new("/x"),
            what: "records",
            least: ByteSize::mib(1),
            wanted: ByteSize::mib(16),
        };
        let grade = |bytes, files| judge(&need, Left { bytes, files }).grade;
        assert_eq!(grade(ByteSize::mib(16), true), Grade::Good);
        assert_eq!(grade(ByteSize::mib(15), true), Grade::Note);
        assert_eq!(grade(ByteSize::mib(1), true), Grade::Note);
        assert_eq!(grade(ByteSize::from_bytes(0), true), Grade::Missing);
        assert_eq!(grade(ByteSize::gib(1), false), Grade::Missing);
    }
}
