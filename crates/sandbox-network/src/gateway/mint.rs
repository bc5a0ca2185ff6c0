//! Certificates for the hosts that the guest asks for, of its sandbox's own authority.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::authority::Authority;

/// Names whose certificates are kept.
const REMEMBERED: usize = 1024;

pub(super) struct Mint {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
    /// Of every certificate: they are one sandbox's.
    key: KeyPair,
    made: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

/// One certificate for whoever asks.
#[derive(Debug)]
pub(super) struct Fixed(pub Arc<CertifiedKey>);

impl ResolvesServerCert for Fixed {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

impl Mint {
    pub fn new(authority: &Authority) -> io::Result<Self> {
        let key = KeyPair::from_pem(authority.key.reveal()).map_err(io::Error::other)?;
        let root =
            CertificateDer::from_pem_slice(authority.certificate.as_bytes()).map_err(io::Error::other)?;
        let issuer = Issuer::from_ca_cert_der(&root, key).map_err(io::Error::other)?;
        let key = KeyPair::generate().map_err(io::Error::other)?;
        Ok(Self { issuer, root, key, made: Mutex::default() })
    }

    /// For a host by its name.
    pub fn certificate(&self, name: &str) -> io::Result<Arc<CertifiedKey>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = made.get(name) {
            return Ok(Arc::clone(found));
        }
        let mut params = CertificateParams::new(vec![name.to_string()]).map_err(io::Error::other)?;
        let mut subject = DistinguishedName::new();
        // A name of more letters than a common name may have stands in the other place alone.
        subject.push(DnType::CommonName, if name.len() <= 64 { name } else { "agents-sandbox" });
        params.distinguished_name = subject;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        // A guest's clock may be off, and a sandbox may be old.
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2100, 1, 1);
        let leaf = params.signed_by(&self.key, &self.issuer).map_err(io::Error::other)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let key = any_supported_type(&key).map_err(io::Error::other)?;
        let certified = Arc::new(CertifiedKey::new(vec![leaf.der().clone(), self.root.clone()], key));
        if made.len() >= REMEMBERED {
            made.clear();
        }
        made.insert(name.into(), Arc::clone(&certified));
        Ok(certified)
    }
}
