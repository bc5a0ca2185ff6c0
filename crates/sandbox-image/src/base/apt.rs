//! What apt on this machine knows: its mirrors and how it reaches them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::setting::DEFAULT_SUITE;
use crate::engine::capture;
use crate::{ImageError, Result};

const LOOK: Duration = Duration::from_secs(30);
const FORMAT: &str = "$(REPO_URI)|$(RELEASE)|$(ORIGIN)|$(LABEL)|$(COMPONENT)";
/// Releases that have security and update suites beside them.
const DEBIAN_RELEASES: [&str; 4] = ["bullseye", "bookworm", "trixie", "forky"];
const DEBIAN_ROLLING: [&str; 2] = ["sid", "unstable"];
const KEYRINGS: [(&str, &str); 2] = [
    ("Debian", "/usr/share/keyrings/debian-archive-keyring.gpg"),
    ("Ubuntu", "/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
];

/// One index that apt reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    uri: String,
    release: String,
    origin: String,
    label: String,
    component: String,
}

/// The package sources of a release, as lines of a `sources.list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sources {
    pub lines: Vec<String>,
    pub keyring: Option<PathBuf>,
}

/// Asks apt for its sources. An apt that never updated knows them without origin.
pub(super) fn targets() -> Result<Vec<Target>> {
    for extra in [None, Some("--no-release-info")] {
        let mut command = Command::new("apt-get");
        command.arg("indextargets").args(extra).args(["--format", FORMAT]);
        let answer = match capture(command, "apt-get", LOOK) {
            Ok(answer) => answer,
            // No apt: no mirrors.
            Err(ImageError::Start { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let found = parse(&answer.stdout);
        if found.iter().any(|target| target.is_debian() || target.origin == "Ubuntu") {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

fn parse(text: &str) -> Vec<Target> {
    let mut targets = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [uri, release, origin, label, component] = fields[..] else { continue };
        // A field that apt does not know stays as the name of its variable.
        let known = |field: &str| if field.starts_with("$(") { String::new() } else { field.to_string() };
        let target = Target {
            uri: uri.trim_end_matches('/').to_string(),
            release: release.into(),
            origin: known(origin),
            label: known(label),
            component: component.into(),
        };
        if !targets.contains(&target) && target.usable() {
            targets.push(target);
        }
    }
    targets
}

impl Target {
    /// The parts become words of a line, so none may hold a blank or a bracket.
    fn usable(&self) -> bool {
        [&self.uri, &self.release, &self.component]
            .iter()
            .all(|part| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "[]".contains(c)))
    }

    fn is_debian(&self) -> bool {
        let by_name = self.origin.is_empty()
            && self.uri.ends_with("/debian")
            && DEBIAN_RELEASES.iter().chain(&DEBIAN_ROLLING).any(|name| *name == self.release);
        (self.origin == "Debian" && self.label == "Debian") || by_name
    }

    fn is_debian_security(&self) -> bool {
        self.label == "Debian-Security" || (self.origin.is_empty() && self.uri.ends_with("/debian-security"))
    }
}

/// The release that `auto` bootstraps: [`DEFAULT_SUITE`] where a Debian mirror is known, else the machine's
/// own (`codename` of its os-release) where apt has that.
pub(super) fn default_suite(targets: &[Target], codename: Option<&str>) -> String {
    let own = codename.filter(|name| targets.iter().any(|target| target.release == *name));
    match own {
        Some(own) if !targets.iter().any(Target::is_debian) => own.into(),
        _ => DEFAULT_SUITE.into(),
    }
}

/// The sources of `suite`, from mirrors that apt already uses.
pub(super) fn sources(targets: &[Target], suite: &str) -> Option<Sources> {
    let own: Vec<&Target> = targets
        .iter()
        .filter(|t| {
            t.release == suite
                || t.release.strip_prefix(suite).is_some_and(|s| s == "-updates" || s == "-security")
        })
        .collect();
    let mut lines = Vec::new();
    if own.iter().any(|target| target.release == suite) {
        let suites: BTreeSet<(&str, &str)> =
            own.iter().map(|t| (t.release.as_str(), t.uri.as_str())).collect();
        for (release, uri) in suites {
            let components: BTreeSet<&str> = own
                .iter()
                .filter(|t| t.release == release && t.uri == uri)
                .map(|t| t.component.as_str())
                .collect();
            let components: Vec<&str> = components.into_iter().collect();
            lines.push(format!("deb {uri} {release} {}", components.join(" ")));
        }
    } else {
        let released = DEBIAN_RELEASES.contains(&suite);
        if !released && !DEBIAN_ROLLING.contains(&suite) {
            return None;
        }
        let mirror = targets.iter().find(|target| target.is_debian())?;
        lines.push(format!("deb {} {suite} main", mirror.uri));
        if released {
            lines.push(format!("deb {} {suite}-updates main", mirror.uri));
            if let Some(security) = targets.iter().find(|target| target.is_debian_security()) {
                lines.push(format!("deb {} {suite}-security main", security.uri));
            }
        }
    }
    let debian = DEBIAN_RELEASES.contains(&suite) || DEBIAN_ROLLING.contains(&suite);
    let origin = if debian { "Debian" } else { "Ubuntu" };
    let keyring = KEYRINGS.iter().find(|(name, _)| *name == origin).map(|(_, path)| PathBuf::from(path));
    Some(Sources { lines, keyring: keyring.filter(|path| path.exists()) })
}

/// The releases that apt knows, for an error message.
pub(super) fn known(targets: &[Target]) -> String {
    let names: BTreeSet<&str> = targets.iter().map(|target| target.release.as_str()).collect();
    if names.is_empty() { "none".into() } else { names.into_iter().collect::<Vec<_>>().join(", ") }
}

/// The machine's apt settings that a bootstrap needs: `Key "value"`.
pub(super) fn options() -> Result<Vec<String>> {
    let mut command = Command::new("apt-config");
    command.arg("dump");
    let answer = match capture(command, "apt-config", LOOK) {
        Ok(answer) => answer,
        Err(ImageError::Start { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(pick_options(&answer.stdout))
}

fn pick_options(dump: &str) -> Vec<String> {
    let wanted = |key: &str| {
        let key = key.to_lowercase();
        matches!(key.as_str(), "acquire::check-valid-until" | "acquire::check-date")
            || key.starts_with("acquire::http::proxy")
            || key.starts_with("acquire::https::proxy")
            || key.starts_with("acquire::https::cainfo")
    };
    let lines = dump.lines().map(|line| line.trim_end_matches(';'));
    let pairs =
        lines.filter_map(|line| line.split_once(' ')).filter(|(key, value)| wanted(key) && *value != "\"\"");
    pairs.map(|(key, value)| format!("{key} {value}")).collect()
}

/// apt's own proxy for plain HTTP, where it has one.
pub(crate) fn proxy() -> Result<Option<String>> {
    let found = options()?.into_iter().find_map(|option| {
        let (key, value) = option.split_once(' ')?;
        (key.eq_ignore_ascii_case("Acquire::http::Proxy")).then(|| value.trim_matches('"').to_string())
    });
    Ok(found.filter(|proxy| proxy.contains("://")))
}

/// `VERSION_CODENAME` of an os-release file.
pub(super) fn codename(path: &Path) -> Option<String> {
    let text = fs_err::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(value.trim_matches('"').to_string()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "\
http://mirror.example/debian/|bookworm|Debian|Debian|main
http://mirror.example/debian/|bookworm|Debian|Debian|main
http://mirror.example/debian/|bookworm-updates|Debian|Debian|main
http://mirror.example/debian-security/|bookworm-security|Debian|Debian-Security|main
https://other.example/repo/|nodistro|Other|Other|main
";
    const UBUNTU: &str = "\
http://mirror.example/ubuntu/|noble|Ubuntu|Ubuntu|main
http://mirror.example/ubuntu/|noble|Ubuntu|Ubuntu|universe
http://mirror.example/ubuntu/|noble-updates|Ubuntu|Ubuntu|main
http://mirror.example/ubuntu/|noble-backports|Ubuntu|Ubuntu|main
";

    #[test]
    fn another_release_comes_from_the_machines_own_debian_mirror() {
        let targets = parse(DEBIAN);
        assert_eq!(default_suite(&targets, Some("bookworm")), "trixie");
        assert_eq!(
            sources(&targets, "trixie").unwrap().lines,
            [
                "deb http://mirror.example/debian trixie main",
                "deb http://mirror.example/debian trixie-updates main",
                "deb http://mirror.example/debian-security trixie-security main",
            ]
        );
    }

    #[test]
    fn the_machines_own_release_keeps_its_own_sources() {
        let targets = parse(UBUNTU);
        assert_eq!(default_suite(&targets, Some("noble")), "noble");
        assert_eq!(
            sources(&targets, "noble").unwrap().lines,
            [
                "deb http://mirror.example/ubuntu noble main universe",
                "deb http://mirror.example/ubuntu noble-updates main"
            ]
        );
    }

    #[test]
    fn a_release_that_no_mirror_has_has_no_sources() {
        assert_eq!(sources(&parse(UBUNTU), "trixie"), None);
        assert_eq!(sources(&parse(DEBIAN), "noble"), None);
        assert_eq!(known(&parse(UBUNTU)), "noble, noble-backports, noble-updates");
    }

    #[test]
    fn an_apt_that_never_updated_is_understood_by_its_paths() {
        let targets = parse("http://mirror.example/debian/|trixie|$(ORIGIN)|$(LABEL)|main\n");
        assert_eq!(
            sources(&targets, "trixie").unwrap().lines,
            ["deb http://mirror.example/debian trixie main"]
        );
    }

    #[test]
    fn a_source_that_would_break_its_line_is_dropped() {
        assert!(parse("http://x/debian [trusted=yes]/|trixie|Debian|Debian|main\n").is_empty());
    }

    #[test]
    fn only_settings_that_a_bootstrap_needs_are_carried_over() {
        let dump = "\
APT \"\";
Acquire::http::Proxy \"http://proxy:3142\";
Acquire::https::Proxy \"\";
Acquire::Check-Valid-Until \"false\";
Acquire::Languages \"\";
DPkg::Post-Invoke:: \"rm -rf /\";
";
        assert_eq!(
            pick_options(dump),
            ["Acquire::http::Proxy \"http://proxy:3142\"", "Acquire::Check-Valid-Until \"false\""]
        );
    }
}
