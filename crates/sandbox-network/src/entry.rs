use std::fmt;

use ipnetwork::IpNetwork;
use microsandbox_network::policy::{DomainName, PortRange};
use sandbox_model::{DESTINATION_FORMS, Destination};

/// Which list an entry stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressList {
    /// `egress-allow`.
    Allow,
    /// `egress-deny`, which wins.
    Deny,
}

impl fmt::Display for EgressList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "egress-allow",
            Self::Deny => "egress-deny",
        })
    }
}

/// What in a policy cannot be understood. Nothing of such a policy is put into force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("{list}: `{entry}`: {problem}; {DESTINATION_FORMS}")]
    Entry { list: EgressList, entry: String, problem: String },
    #[error("dns-servers: `{entry}` is no resolver; one is `address`, `address:port`, `name` or `name:port`")]
    Resolver { entry: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Host,
    Net(IpNetwork),
    Name(DomainName),
    /// The name itself and everything below it.
    Suffix(DomainName),
    Any,
}

/// One entry of a list, in the engine's types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub target: Target,
    pub port: Option<u16>,
}

impl Entry {
    pub fn parse(list: EgressList, text: &str) -> Result<Self, PolicyError> {
        let error = |problem: String| PolicyError::Entry { list, entry: text.into(), problem };
        let destination: Destination =
            text.parse().map_err(|e: sandbox_model::InvalidDestination| error(e.0))?;
        if list == EgressList::Allow && destination.is_guest_itself() {
            return Err(error("this is the guest itself; the host's own services are `host`".into()));
        }
        let target = engine_target(destination.target).map_err(error)?;
        Ok(Self { target, port: destination.port })
    }

    pub fn ports(&self) -> Vec<PortRange> {
        self.port.map(PortRange::single).into_iter().collect()
    }
}

fn engine_target(target: sandbox_model::Target) -> Result<Target, String> {
    let name = |text: &str| text.parse::<DomainName>().map_err(|error| error.to_string());
    match target {
        sandbox_model::Target::Host => Ok(Target::Host),
        sandbox_model::Target::Net { address, prefix } => {
            IpNetwork::new(address, prefix).map(Target::Net).map_err(|error| error.to_string())
        }
        sandbox_model::Target::Name(text) => name(&text).map(Target::Name),
        sandbox_model::Target::Suffix(text) => {
            name(&text)?.try_into_suffix().map(Target::Suffix).map_err(|error| error.to_string())
        }
        sandbox_model::Target::Any => Ok(Target::Any),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_names_the_list_the_entry_and_the_forms() {
        let error = |list, text| Entry::parse(list, text).unwrap_err().to_string();
        for (text, part) in [("10.0.0.0/99", "from 0 to 32"), ("127.0.0.1:80", "`host`"), ("::1", "`host`")] {
            let error = error(EgressList::Allow, text);
            assert!(error.starts_with(&format!("egress-allow: `{text}`: ")), "{error}");
            assert!(error.contains(part) && error.contains("`.suffix`"), "{text}: {error}");
        }
        assert!(Entry::parse(EgressList::Deny, "127.0.0.0/8").is_ok());
        let denied = error(EgressList::Deny, "x y");
        assert!(denied.starts_with("egress-deny: "), "{denied}");
    }

    proptest! {
        /// Whatever the settings take, the engine takes.
        #[test]
        fn every_destination_is_one_of_the_engines(text in "[a-z0-9.:/*_\\[\\]-]{0,30}|.{0,60}") {
            if text.parse::<Destination>().is_ok() {
                prop_assert!(Entry::parse(EgressList::Deny, &text).is_ok());
            }
        }
    }
}
