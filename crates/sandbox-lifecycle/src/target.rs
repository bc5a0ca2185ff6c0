use sandbox_model::{AgentName, CheckoutSlug, SandboxName};

/// Which sandbox: one checkout and one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub checkout: CheckoutSlug,
    pub agent: AgentName,
}

impl Target {
    pub fn name(&self) -> SandboxName {
        SandboxName::new(&self.checkout, self.agent)
    }
}
