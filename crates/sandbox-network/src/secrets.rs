//! Secrets, in the engine's types.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use microsandbox_network::config::NetworkConfig;
use microsandbox_network::secrets::config::{
    HostPattern, SecretEntry, SecretSubstitution, SecretViolationAction, SecretsConfig,
};
use microsandbox_network::secrets::handle::SecretsHandle;
use rustix::fs::{MemfdFlags, memfd_create};
use sandbox_model::{SecretHost, SecretSpec, SecretValues};
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

impl BridgeSecrets {
    /// Whether one of them is kept from some host.
    pub(crate) fn are_for_some_hosts(&self) -> bool {
        self.secrets.iter().any(|secret| !secret.hosts.is_empty())
    }
}

/// Why secrets cannot be put in. It names the secret, and never shows a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the value of the secret {name} is missing")]
    NoValue { name: String },
    #[error("the secret {name} cannot be used: {problem}")]
    Invalid { name: String, problem: String },
    #[error("the certificate authority cannot be handed to the engine: {0}")]
    Authority(#[source] std::io::Error),
}

/// Files of this process's memory that the engine reads the authority from.
#[derive(Debug)]
pub(crate) struct AuthorityFiles {
    _files: [File; 2],
}

/// Has the engine look into TLS and put the values in. The files are needed until it has started.
pub(crate) fn install(
    engine: &mut NetworkConfig,
    secrets: &BridgeSecrets,
) -> Result<AuthorityFiles, SecretError> {
    let entries = secrets.secrets.iter().map(|secret| entry(secret, &secrets.values));
    engine.secrets = SecretsConfig {
        passthrough_hosts: None,
        secrets: entries.collect::<Result<_, _>>()?,
        violation_action: SecretViolationAction::BlockAndLog,
    };
    for (index, secret) in engine.secrets.secrets.iter().enumerate() {
        secret.validate(index).map_err(|error| SecretError::Invalid {
            name: secret.env_var.clone(),
            problem: error.to_string(),
        })?;
    }
    let authority = &secrets.authority;
    let certificate = in_memory("ca", authority.certificate.as_bytes()).map_err(SecretError::Authority)?;
    let key = in_memory("key", authority.key.reveal().as_bytes()).map_err(SecretError::Authority)?;
    let path = |file: &File| Some(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())));
    engine.tls.enabled = true;
    engine.tls.intercepted_ports = ports(&secrets.secrets);
    engine.tls.intercept_ca.cert_path = path(&certificate);
    engine.tls.intercept_ca.key_path = path(&key);
    Ok(AuthorityFiles { _files: [certificate, key] })
}

fn entry(secret: &SecretSpec, values: &SecretValues) -> Result<SecretEntry, SecretError> {
    let value = values.get(&secret.name);
    let value = value.ok_or_else(|| SecretError::NoValue { name: secret.name.clone() })?;
    let every = secret.headers.iter().any(|field| field == "*");
    Ok(SecretEntry {
        env_var: secret.name.clone(),
        value: value.reveal().to_string().into(),
        source: None,
        placeholder: secret.placeholder(),
        allowed_hosts: if secret.hosts.is_empty() {
            vec![HostPattern::Any]
        } else {
            secret.hosts.iter().map(pattern).collect()
        },
        substitution: SecretSubstitution {
            headers: !secret.headers.is_empty(),
            header_fields: if every { Vec::new() } else { secret.headers.clone() },
            query: secret.query,
            body: secret.body,
        },
        passthrough_hosts: Vec::new(),
        violation_action: None,
        require_tls_identity: true,
    })
}

/// Puts in other values of the secrets there are, for as long as there are some.
pub(crate) fn change(handle: &SecretsHandle, values: impl Iterator<Item = SecretValues>) {
    for (name, value) in values.flatten() {
        if let Err(error) = handle.rotate_value(&name, value.reveal().to_string()) {
            // It names the secret only.
            tracing::warn!("another value cannot be used: {error}");
        }
    }
}

fn pattern(host: &SecretHost) -> HostPattern {
    if host.below {
        HostPattern::Wildcard(format!("*.{}", host.name))
    } else {
        HostPattern::Exact(host.name.clone())
    }
}

/// The ports at which TLS is looked into: that of HTTPS, and those that a host names.
pub(crate) fn ports(secrets: &[SecretSpec]) -> Vec<u16> {
    let named = secrets.iter().flat_map(|secret| secret.hosts.iter().filter_map(|host| host.port));
    named.chain([443]).collect::<BTreeSet<_>>().into_iter().collect()
}

fn in_memory(name: &str, bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}
