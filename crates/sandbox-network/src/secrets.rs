//! Secrets, as a bridge is told of them.

use std::collections::BTreeSet;

use sandbox_model::{SecretSpec, SecretValues};
use serde::{Deserialize, Serialize};

use crate::authority::Authority;

/// What a bridge needs to put in secrets. It travels by pipe alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BridgeSecrets {
    /// Which stand-ins there are, and to whom each value may go.
    pub secrets: Vec<SecretSpec>,
    /// Of each of them.
    pub values: SecretValues,
    /// Signs the certificates that the guest sees where its TLS is looked into.
    pub authority: Authority,
}

/// Why secrets cannot be put in. It names the secret, and never shows a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the value of the secret {name} is missing")]
    NoValue { name: String },
    #[error("the secret {name} cannot be used: {problem}")]
    Invalid { name: String, problem: String },
    #[error("there is no secret {name}")]
    Unknown { name: String },
    #[error("the certificate authority cannot be used: {0}")]
    Authority(#[source] std::io::Error),
}

/// The ports at which TLS is looked into: that of HTTPS, and those that a host names.
pub fn ports(secrets: &[SecretSpec]) -> Vec<u16> {
    let named = secrets.iter().flat_map(|secret| secret.hosts.iter().filter_map(|host| host.port));
    named.chain([443]).collect::<BTreeSet<_>>().into_iter().collect()
}
