use std::io::{Read, Write};
use std::time::Duration;

use ureq::Agent;
use ureq::tls::TlsConfig;

use super::RuntimeInstallError;
use super::download::roots;

const CHUNK: usize = 256 * 1024;

/// Writes what is at an address into `to`; `progress` gets bytes done, and the total where it is known.
/// Proxies are taken from the environment, and the certificates are those of this machine.
pub fn get(
    url: &str,
    deadline: Duration,
    to: &mut dyn Write,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), RuntimeInstallError> {
    let failed = |problem: String| RuntimeInstallError::Download { url: url.into(), problem };
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(deadline))
        .timeout_connect(Some(Duration::from_secs(20)))
        .tls_config(TlsConfig::builder().root_certs(roots()).build())
        .build()
        .into();
    let response = agent.get(url).call().map_err(|error| failed(error.to_string()))?;
    let total = response.body().content_length();
    let mut body = response.into_body().into_reader();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
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
