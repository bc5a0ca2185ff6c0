use std::path::Path;

use nix::unistd::{Gid, Uid};

/// A user as the guest's own files describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: Uid,
    pub gid: Gid,
    /// Supplementary groups, the primary one included.
    pub groups: Vec<Gid>,
    pub home: String,
    pub shell: String,
}

const DEFAULT_SHELL: &str = "/bin/sh";

impl Account {
    /// Looks `name` up in `passwd` and `group` below `etc`. Root exists without them; `None` is a user that
    /// does not exist.
    pub fn find(etc: &Path, name: &str) -> Option<Self> {
        let read = |file| {
            let bytes = fs_err::read(etc.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Self::parse(&read("passwd"), &read("group"), name)
    }

    fn parse(passwd: &str, group: &str, name: &str) -> Option<Self> {
        let (uid, gid, home, shell) = match passwd.lines().find_map(|line| passwd_entry(line, name)) {
            Some(entry) => entry,
            None if name == "root" => (0, 0, "/root", DEFAULT_SHELL),
            None => return None,
        };
        let mut groups = vec![Gid::from_raw(gid)];
        for gid in group.lines().filter_map(|line| group_with_member(line, name)).map(Gid::from_raw) {
            if !groups.contains(&gid) {
                groups.push(gid);
            }
        }
        Some(Self {
            name: name.to_owned(),
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            groups,
            home: if home.is_empty() { "/" } else { home }.to_owned(),
            shell: if shell.is_empty() { DEFAULT_SHELL } else { shell }.to_owned(),
        })
    }
}

fn passwd_entry<'a>(line: &'a str, name: &str) -> Option<(u32, u32, &'a str, &'a str)> {
    let mut fields = line.split(':');
    if fields.next() != Some(name) {
        return None;
    }
    let mut fields = fields.skip(1);
    let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let mut fields = fields.skip(1);
    Some((uid, gid, fields.next().unwrap_or_default(), fields.next().unwrap_or_default()))
}

fn group_with_member(line: &str, name: &str) -> Option<u32> {
    let mut fields = line.split(':').skip(2);
    let gid = fields.next()?.parse().ok()?;
    fields.next()?.split(',').any(|member| member.trim() == name).then_some(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken:x:one:1::/:\n\
                          dev:x:1000:1000:,,,:/home/dev:/usr/bin/zsh\nbare:x:7:8:::\nshort:x:9:9\n";
    const GROUP: &str = "root:x:0:\ndev:x:1000:\ndocker:x:998:other,dev\nsudo:x:27: dev \nkvm:x:5:devel\n";

    fn find(name: &str) -> Option<Account> {
        Account::parse(PASSWD, GROUP, name)
    }

    #[test]
    fn a_user_has_its_groups_home_and_shell() {
        let dev = find("dev").unwrap();
        assert_eq!((dev.uid, dev.gid), (Uid::from_raw(1000), Gid::from_raw(1000)));
        assert_eq!(dev.groups, [1000, 998, 27].map(Gid::from_raw));
        assert_eq!((dev.home.as_str(), dev.shell.as_str()), ("/home/dev", "/usr/bin/zsh"));
    }

    #[test]
    fn empty_and_missing_fields_have_defaults() {
        for (name, uid) in [("bare", 7), ("short", 9)] {
            let account = find(name).unwrap();
            assert_eq!(account.uid, Uid::from_raw(uid));
            assert_eq!((account.home.as_str(), account.shell.as_str()), ("/", "/bin/sh"));
        }
    }

    #[test]
    fn nobody_is_invented_but_root() {
        assert_eq!(find("ghost"), None);
        assert_eq!(find("broken"), None);
        assert_eq!(find(""), None);
        let root = Account::parse("", "", "root").unwrap();
        assert_eq!((root.uid, root.home.as_str()), (Uid::from_raw(0), "/root"));
    }
}
