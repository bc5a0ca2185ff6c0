//! What programs learn from variables about the terminal that they run on.

use std::collections::BTreeMap;

use sandbox_model::ExecSpec;

/// Tells a command on the user's terminal what that terminal can. `sandbox` is what its settings set: that, and
/// what the command was given for itself, stands above.
pub fn describe_terminal(command: &mut ExecSpec, sandbox: &BTreeMap<String, String>) {
    describe(command, sandbox, |name| std::env::var(name).ok());
}

fn describe(
    command: &mut ExecSpec,
    sandbox: &BTreeMap<String, String>,
    own: impl Fn(&str) -> Option<String>,
) {
    if command.tty.is_none() {
        return;
    }
    let known = |name: &str, value: &str| match name {
        // A guest knows few terminals by name, and gives its programs one that every terminal is like; one that
        // can nothing is like none of them.
        "TERM" => value == "dumb",
        _ => !value.is_empty(),
    };
    let variables = ["TERM", "COLORTERM", "NO_COLOR"]
        .into_iter()
        .filter(|name| !sandbox.contains_key(*name))
        .filter_map(|name| Some((name.to_string(), own(name)?)))
        .filter(|(name, value)| known(name, value));
    // Later entries win.
    command.env.splice(0..0, variables);
}

#[cfg(test)]
mod tests {
    use sandbox_model::TermSize;

    use super::*;

    fn described(own: &[(&str, &str)], sandbox: &[&str], tty: bool) -> Vec<String> {
        let mut command = ExecSpec::new(["x"]);
        command.env.push(("COLORTERM".into(), "typed".into()));
        command.tty = tty.then_some(TermSize { cols: 80, rows: 24 });
        let sandbox = sandbox.iter().map(|name| ((*name).into(), String::new())).collect();
        let find = |name: &str| own.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).into());
        describe(&mut command, &sandbox, find);
        command.env.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_command_learns_what_the_users_terminal_can() {
        let own = [("TERM", "xterm-kitty"), ("COLORTERM", "truecolor"), ("NO_COLOR", ""), ("LANG", "C")];
        assert_eq!(described(&own, &[], true), ["COLORTERM=truecolor", "COLORTERM=typed"]);
        assert_eq!(described(&own, &[], false), ["COLORTERM=typed"], "without a terminal");
        assert_eq!(described(&own, &["COLORTERM"], true), ["COLORTERM=typed"], "the settings say it");
        let own = [("TERM", "dumb"), ("NO_COLOR", "1")];
        assert_eq!(described(&own, &[], true), ["TERM=dumb", "NO_COLOR=1", "COLORTERM=typed"]);
        assert_eq!(described(&[], &[], true), ["COLORTERM=typed"]);
    }
}
