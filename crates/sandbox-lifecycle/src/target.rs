use sandbox_agents::{Profile, profiles};
use sandbox_model::{AgentName, CheckoutSlug, SandboxName, SandboxSpec, labels};

use crate::legacy::without_prefix;

/// Which sandbox: one checkout and one agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Whose folder is at `/workspace`.
    pub checkout: CheckoutSlug,
    /// What works in it.
    pub agent: AgentName,
}

impl Target {
    /// What a new one is called. One that an earlier version made may have a longer name:
    /// [`crate::sandbox_name`] says which there is.
    pub fn name(&self) -> SandboxName {
        SandboxName::new(&self.checkout, self.agent)
    }

    /// Taken from a sandbox's labels; `None` for one that is not ours. This program need not know the agent.
    pub fn of(spec: &SandboxSpec) -> Option<Self> {
        let label = |key: &str| spec.labels.get(key).map(String::as_str);
        let checkout = label(labels::CHECKOUT)?.parse().ok()?;
        let agent = label(labels::AGENT)?.parse().ok()?;
        Some(Self { checkout, agent })
    }

    /// Taken from a name alone, where there is no record to ask: `<checkout-slug>-<agent>`, which earlier
    /// versions put a prefix in front of. Only an agent that has a profile: where another one's name would begin,
    /// nothing tells.
    pub fn from_name(name: &SandboxName) -> Option<Self> {
        profiles().iter().find_map(|Profile { name: agent, .. }| {
            let checkout = without_prefix(name.as_str())
                .strip_suffix(agent.as_str())?
                .strip_suffix('-')?
                .parse()
                .ok()?;
            Some(Self { checkout, agent: *agent })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_its_parts_back() {
        let checkout: CheckoutSlug = "my-claude-4chyvv5c1qh507".parse().unwrap();
        for Profile { name: agent, .. } in profiles() {
            let target = Target { checkout: checkout.clone(), agent: *agent };
            let old = format!("agents-sandbox-vm-{}", target.name()).parse().unwrap();
            assert_eq!(Target::from_name(&old), Some(target.clone()));
            assert_eq!(Target::from_name(&target.name()), Some(target));
        }
        assert_eq!(Target::from_name(&"some-other-thing".parse().unwrap()), None);
        assert_eq!(Target::from_name(&"opencode".parse().unwrap()), None);
    }

    #[test]
    fn labels_are_believed_only_when_they_can_be_names() {
        let mut spec = crate::up::spec::tests::example();
        assert_eq!(Target::of(&spec).map(|target| target.name()), Some(spec.name.clone()));
        spec.labels.insert(labels::CHECKOUT.into(), "../../x".into());
        assert_eq!(Target::of(&spec), None);
    }
}
