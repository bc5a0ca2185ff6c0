use super::accounts::Account;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const DEFAULT_TERM: &str = "xterm-256color";

/// The environment of one command, each name once. Later layers win: the sandbox's, the user's, the
/// request's.
pub fn compose(
    sandbox: &[(String, String)],
    account: &Account,
    terminal: bool,
    request: &[(String, String)],
) -> Vec<(String, String)> {
    let mut env = vec![("PATH", DEFAULT_PATH)];
    if terminal {
        env.push(("TERM", DEFAULT_TERM));
    }
    let layers = sandbox.iter().map(borrow).chain([
        ("HOME", account.home.as_str()),
        ("USER", account.name.as_str()),
        ("LOGNAME", account.name.as_str()),
        ("SHELL", account.shell.as_str()),
    ]);
    for (name, value) in layers.chain(request.iter().map(borrow)) {
        match env.iter_mut().find(|(known, _)| *known == name) {
            Some(entry) => entry.1 = value,
            None => env.push((name, value)),
        }
    }
    env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn borrow((name, value): &(String, String)) -> (&str, &str) {
    (name, value)
}

#[cfg(test)]
mod tests {
    use nix::unistd::{Gid, Uid};

    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn later_layers_win() {
        let account = Account {
            name: "dev".into(),
            uid: Uid::from_raw(1000),
            gid: Gid::from_raw(1000),
            groups: Vec::new(),
            home: "/home/dev".into(),
            shell: "/bin/zsh".into(),
        };
        let sandbox =
            pairs(&[("HOME", "/image"), ("LANG", "C"), ("PATH", "/image/bin"), ("LANG", "C.UTF-8")]);
        let request = pairs(&[("SHELL", "/bin/sh"), ("EXTRA", "1")]);
        let env = compose(&sandbox, &account, false, &request);
        let expected = [
            ("PATH", "/image/bin"),
            ("HOME", "/home/dev"),
            ("LANG", "C.UTF-8"),
            ("USER", "dev"),
            ("LOGNAME", "dev"),
            ("SHELL", "/bin/sh"),
            ("EXTRA", "1"),
        ];
        assert_eq!(env, pairs(&expected));
        let on_terminal = compose(&[], &account, true, &pairs(&[("TERM", "dumb")]));
        assert!(on_terminal.contains(&("TERM".into(), "dumb".into())));
        assert!(on_terminal.contains(&("PATH".into(), DEFAULT_PATH.into())));
    }
}
