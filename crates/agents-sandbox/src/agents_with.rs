use sandbox_agents::{DaemonProfile, profiles};

/// The flags that take an agent whose server `has` something: what a hint names.
pub fn agents_with(has: impl Fn(&DaemonProfile) -> bool) -> String {
    let able = profiles().iter().filter(|agent| agent.daemon.as_ref().is_some_and(&has));
    let flags: Vec<String> = able.map(|agent| format!("`--agent {}`", agent.name)).collect();
    flags.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_have_it_are_named_in_their_order() {
        assert!(agents_with(|_| true).starts_with("`--agent opencode` or `--agent opencode2`"));
        assert!(!agents_with(|server| server.session_status).contains("opencode2"));
        assert_eq!(agents_with(|_| false), "");
    }
}
