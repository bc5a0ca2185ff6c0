//! What a bridge and an outlet begin with, once they have dropped their rights.

use std::fs::File;
use std::sync::Arc;

use sandbox_model::SecretValues;
use tokio::runtime::Runtime;

use crate::bridge::BridgeError;
use crate::compile::Compiled;
use crate::event_log::EventLog;
use crate::gateway::Gateway;
use crate::log;
use crate::secrets::BridgeSecrets;

/// What was begun.
pub(crate) struct Begun {
    pub told: EventLog,
    pub threads: Runtime,
    /// Where there are secrets.
    pub gateway: Option<Arc<Gateway>>,
}

/// `filter` says what goes to stderr beside denials.
pub(crate) fn begin(
    policy: &Arc<Compiled>,
    secrets: Option<&BridgeSecrets>,
    filter: Option<&str>,
    events: Option<File>,
) -> Result<Begun, BridgeError> {
    let told = EventLog::new(Box::new(std::io::stderr()), events);
    log::start(filter, Arc::clone(policy), told.clone());
    // Two providers are linked; with none chosen the engine panics at the first use of TLS. An error says
    // that one was chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(BridgeError::Threads)?;
    let gateway = secrets.map(|secrets| Gateway::new(secrets, told.clone()).map(Arc::new)).transpose()?;
    Ok(Begun { told, threads, gateway })
}

/// Has other values count for as long as there are some.
pub(crate) fn change(
    gateway: Option<Arc<Gateway>>,
    values: impl Iterator<Item = SecretValues> + Send + 'static,
) -> Result<(), BridgeError> {
    let Some(gateway) = gateway else { return Ok(()) };
    let change = move || values.for_each(|values| gateway.change(&values));
    let thread = std::thread::Builder::new().name("secret values".into()).spawn(change);
    thread.map(drop).map_err(BridgeError::Threads)
}
