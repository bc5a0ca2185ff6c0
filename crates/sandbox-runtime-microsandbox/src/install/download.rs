use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use ureq::tls::{PemItem, RootCerts, TlsConfig};

use super::{Events, InstallEvent, RuntimeInstallError};

/// Where distributions keep the certificates that the machine's owner trusts, a company proxy's included.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
const CHUNK: usize = 256 * 1024;

/// Fetches an archive into `dir`. Proxies are taken from the environment.
pub(crate) fn fetch(
    url: &str,
    dir: &Path,
    deadline: Duration,
    events: Events<'_>,
) -> Result<PathBuf, RuntimeInstallError> {
    let failed = |problem: String| RuntimeInstallError::Download { url: url.into(), problem };
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(deadline))
        .timeout_connect(Some(Duration::from_secs(20)))
        .tls_config(TlsConfig::builder().root_certs(roots()).build())
        .build()
        .into();
    let response = agent.get(url).call().map_err(|error| failed(error.to_string()))?;
    let total = response.body().content_length();
    let mut body = response.into_body().into_reader();
    let path = dir.join("archive");
    let mut file = fs::File::create(&path)?;
    let mut chunk = vec![0; CHUNK];
    let (mut bytes, mut told) = (0, Instant::now());
    loop {
        let count = body.read(&mut chunk).map_err(|error| failed(error.to_string()))?;
        if count == 0 {
            return Ok(path);
        }
        file.write_all(&chunk[..count])?;
        bytes += count as u64;
        if told.elapsed() >= Duration::from_millis(200) {
            told = Instant::now();
            events(InstallEvent::Fetched { bytes, total });
        }
    }
}

/// The machine's own certificates; the built-in list where there are none.
fn roots() -> RootCerts {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = named.into_iter().chain(BUNDLES.map(PathBuf::from)).find_map(|path| fs::read(path).ok());
    let certificates: Vec<_> = bundle
        .iter()
        .flat_map(|pem| ureq::tls::parse_pem(pem))
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() { RootCerts::WebPki } else { RootCerts::new_with_certs(&certificates) }
}
