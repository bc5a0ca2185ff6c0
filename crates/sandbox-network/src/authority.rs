//! The certificate authority of one sandbox: whoever puts secrets into its TLS connections shows its guest
//! certificates of it.

use std::io;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use sandbox_model::SecretValue;
use serde::{Deserialize, Serialize};

/// A certificate, which the guest trusts, and its key, which the host keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Authority {
    /// PEM.
    pub certificate: String,
    /// PEM.
    pub key: SecretValue,
}

impl Authority {
    /// A new one. Only the sandbox it is made for shall trust it: `name` is that sandbox's.
    pub fn generate(name: &str) -> io::Result<Self> {
        let mut params = CertificateParams::default();
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, format!("agents-sandbox {name}"));
        subject.push(DnType::OrganizationName, "agents-sandbox");
        params.distinguished_name = subject;
        // It signs hosts, and no other authority.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // A guest's clock may be off, and a sandbox may be old.
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2100, 1, 1);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?.pem();
        Ok(Self { certificate, key: SecretValue::new(key.serialize_pem()) })
    }
}
