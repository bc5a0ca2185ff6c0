//! Fetching an archive, and going on where an earlier try ended.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use sha2::{Digest, Sha256};
use ureq::http::{Response, StatusCode, header};
use ureq::tls::{PemItem, RootCerts};
use ureq::{Agent, Body};

use super::get::{agent, receive};
use super::{Events, InstallEvent, RuntimeInstallError};

/// Where distributions keep the certificates that the machine's owner trusts, a company proxy's included.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// What has come of one address so far. It stays when a try fails, for the next one.
#[derive(Debug)]
pub(crate) struct Partial {
    pub archive: PathBuf,
    /// Which content the bytes are of, as its server names it.
    tag: PathBuf,
}

impl Partial {
    pub fn of(url: &str, dir: &Path) -> Self {
        let stem = format!("partial-{}", &hex::encode(Sha256::digest(url))[..16]);
        Self { archive: dir.join(&stem), tag: dir.join(format!("{stem}.tag")) }
    }

    pub fn discard(&self) -> std::io::Result<()> {
        for path in [&self.archive, &self.tag] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// How many bytes are there, and of what. Bytes of nobody knows what are none.
    fn have(&self) -> Option<(u64, String)> {
        let length = fs::metadata(&self.archive).ok()?.len();
        let tag = fs::read_to_string(&self.tag).ok()?;
        (length > 0).then_some((length, tag))
    }
}

/// Fetches an archive into `partial`.
pub(crate) fn fetch(
    url: &str,
    partial: &Partial,
    deadline: Duration,
    events: Events<'_>,
) -> Result<(), RuntimeInstallError> {
    let (response, bytes) = ask(&agent(deadline), url, partial)
        .map_err(|error| RuntimeInstallError::Download { url: url.into(), problem: error.to_string() })?;
    let mut file = if bytes > 0 {
        fs::OpenOptions::new().append(true).open(&partial.archive)?
    } else {
        partial.discard()?;
        if let Some(tag) = tag(&response) {
            fs::write(&partial.tag, tag)?;
        }
        fs::File::create(&partial.archive)?
    };
    let mut told = Instant::now();
    receive(url, response, bytes, &mut file, &mut |bytes, total| {
        if told.elapsed() >= Duration::from_millis(200) {
            told = Instant::now();
            events(InstallEvent::Fetched { bytes, total });
        }
    })
}

/// Asks for what is missing; the answer, and how many bytes come before it. A server that has another
/// content by now, or knows no parts, sends the whole.
fn ask(agent: &Agent, url: &str, partial: &Partial) -> Result<(Response<Body>, u64), ureq::Error> {
    let Some((length, tag)) = partial.have() else { return Ok((agent.get(url).call()?, 0)) };
    let asked =
        agent.get(url).header(header::RANGE, format!("bytes={length}-")).header(header::IF_RANGE, tag).call();
    match asked {
        Ok(response) if response.status() == StatusCode::PARTIAL_CONTENT => Ok((response, length)),
        Ok(response) => Ok((response, 0)),
        // There is nothing after what is there: it may be whole or not, and only the whole tells.
        Err(ureq::Error::StatusCode(416)) => Ok((agent.get(url).call()?, 0)),
        Err(error) => Err(error),
    }
}

/// A word that changes with the content. A weak tag says too little for joining two parts.
fn tag(response: &Response<Body>) -> Option<&str> {
    let value = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    value(header::ETAG).filter(|tag| !tag.starts_with("W/")).or_else(|| value(header::LAST_MODIFIED))
}

/// The machine's own certificates; the built-in list where there are none.
pub(crate) fn roots() -> RootCerts {
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
