use std::path::Path;

use sandbox_state::find_system_tool;

use super::Finding;

const CHECK: &str = "user namespaces";

/// What an engine without root needs to make files of several owners.
pub fn check(rootless: bool) -> Finding {
    if !rootless {
        return Finding::good(CHECK, "not needed to build images here");
    }
    if find_system_tool("newuidmap").is_err() {
        return Finding::missing(CHECK, "newuidmap is not installed", "install it: `apt-get install uidmap`");
    }
    for (file, forbidden) in [
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ] {
        let value = fs_err::read_to_string(file).unwrap_or_default();
        if value.trim() == forbidden {
            let hint = format!("an administrator must change {file}, or use docker");
            return Finding::missing(CHECK, format!("this system forbids them: {file} is {forbidden}"), hint);
        }
    }
    let uid = rustix::process::geteuid().as_raw();
    let name = user_name(uid).unwrap_or_else(|| uid.to_string());
    for file in ["/etc/subuid", "/etc/subgid"] {
        if !has_range(&fs_err::read_to_string(Path::new(file)).unwrap_or_default(), &name, uid) {
            let hint =
                format!("`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}` as root");
            return Finding::missing(CHECK, format!("{file} has no range for {name}"), hint);
        }
    }
    Finding::good(CHECK, format!("{name} has ranges of its own"))
}

fn user_name(uid: u32) -> Option<String> {
    let users = fs_err::read_to_string("/etc/passwd").ok()?;
    let user = users.lines().find(|line| line.split(':').nth(2) == Some(&uid.to_string()))?;
    user.split(':').next().map(String::from)
}

/// A line is `USER:FIRST:COUNT`, where USER may be a number.
fn has_range(ranges: &str, name: &str, uid: u32) -> bool {
    ranges.lines().any(|line| {
        let mut fields = line.split(':');
        let owner = fields.next().unwrap_or_default();
        let count = fields.nth(1).and_then(|count| count.parse::<u32>().ok()).unwrap_or(0);
        (owner == name || owner == uid.to_string()) && count > 1000
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_by_name_or_number() {
        let ranges = "root:100000:65536\nana:165536:65536\n1002:231072:65536\nbo:1:5\n";
        assert!(has_range(ranges, "ana", 1001));
        assert!(has_range(ranges, "cy", 1002));
        assert!(!has_range(ranges, "bo", 1003), "too small");
        assert!(!has_range(ranges, "an", 7));
    }
}
