use std::io::{Read, Write};
use std::time::Duration;

use ureq::http::Response;
use ureq::tls::TlsConfig;
use ureq::{Agent, Body};

use super::RuntimeInstallError;
use super::download::roots;

const CHUNK: usize = 256 * 1024;

/// Asks within `deadline`. Proxies are taken from the environment, and the certificates are those of this machine.
pub(super) fn agent(deadline: Duration) -> Agent {
    Agent::config_builder()
        .timeout_global(Some(deadline))
        .timeout_connect(Some(Duration::from_secs(20)))
        .tls_config(TlsConfig::builder().root_certs(roots()).build())
        .build()
        .into()
}

/// Writes what is at an address into `to`; `progress` gets bytes done, and the total where it is known.
pub fn get(
    url: &str,
    deadline: Duration,
    to: &mut dyn Write,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), RuntimeInstallError> {
    let response = agent(deadline)
        .get(url)
        .call()
        .map_err(|error| RuntimeInstallError::Download { url: url.into(), problem: error.to_string() })?;
    receive(url, response, 0, to, progress)
}

/// Writes an answer into `to`, which has the first `bytes` of it.
pub(super) fn receive(
    url: &str,
    response: Response<Body>,
    mut bytes: u64,
    to: &mut dyn Write,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), RuntimeInstallError> {
    let failed = |problem: String| RuntimeInstallError::Download { url: url.into(), problem };
    let total = response.body().content_length().map(|rest| bytes + rest);
    let mut body = response.into_body().into_reader();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = body.read(&mut chunk).map_err(|error| failed(error.to_string()))?;
        if count == 0 {
            break;
        }
        to.write_all(&chunk[..count])?;
        bytes += count as u64;
        progress(bytes, total);
    }
    match total {
        Some(total) if bytes < total => Err(failed(format!("it ended after {bytes} of {total} bytes"))),
        _ => Ok(()),
    }
}
