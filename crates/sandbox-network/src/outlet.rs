//! What leaves a sandbox whose card another program serves.

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnetwork::IpNetwork;
use sandbox_model::{NetworkPolicy, Proxies, SecretValue, SecretValues};
use serde::{Deserialize, Serialize};

use crate::begin::{Begun, begin, change};
use crate::bridge::{BridgeError, RunAs};
use crate::compile::compile_behind;
use crate::rights::EndsWith;
use crate::secrets::BridgeSecrets;
use crate::upstream::{ANY, Credentials, Upstream, both, listener};
use crate::{GuestAddresses, floor, rights};

/// What an outlet is started with. It travels by pipe alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutletConfig {
    /// What the guest may reach; the other program enforces it, all but the names that resolve.
    pub policy: NetworkPolicy,
    /// Networks in which the guest's gateways lie, behind which the host is.
    pub gateways: [IpNetwork; 2],
    /// With them it looks into TLS; without, it does not.
    #[serde(default)]
    pub secrets: Option<BridgeSecrets>,
    /// Through which proxies this host reaches the world; none where it does so itself.
    #[serde(default)]
    pub proxies: Option<Proxies>,
    /// Where it was last: it comes back there, if nobody else is there now.
    #[serde(default)]
    pub at: Option<OutletAddresses>,
    /// Who may use the relay.
    pub user: String,
    /// By which they prove that.
    pub password: SecretValue,
    /// Whom to become; root becomes nobody if nothing is said. Only root can.
    pub run_as: Option<RunAs>,
    /// What goes to stderr beside denials: a filter of the `tracing` family. The default is `warn`.
    pub log: Option<String>,
}

/// Where an outlet is, on the loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutletAddresses {
    /// Speaks SOCKS 5 (RFC 1928), with user and password (RFC 1929).
    pub relay: SocketAddr,
    /// Speaks DNS, over UDP and TCP. It asks the policy about each name.
    pub resolver: SocketAddr,
}

/// Serves until `end` returns. `ready` is called once with where it listens.
///
/// `values` are other values of secrets, whenever there are some: they count for connections that begin then.
///
/// Each name and connection that the guest tries becomes an [`Event`](crate::Event) in `events`, one JSON document a
/// line; what the other program refuses by its address is none.
///
/// Owns the process: it drops rights for good. Call it once, from a process that has no other threads.
pub fn outlet(
    config: &OutletConfig,
    events: Option<File>,
    values: impl Iterator<Item = SecretValues> + Send + 'static,
    ready: impl FnOnce(&OutletAddresses),
    end: impl FnOnce(),
) -> Result<(), BridgeError> {
    rights::drop_rights(config.run_as, EndsWith::Itself).map_err(BridgeError::Rights)?;
    let local = floor::local_addresses();
    let policy = compile_behind(&config.policy, GuestAddresses::of(0), config.gateways, &local)?;
    let policy = Arc::new(policy);
    let Begun { told, threads, gateway } =
        begin(&policy, config.secrets.as_ref(), config.log.as_deref(), events)?;
    let proxies = config.proxies.clone().map(Arc::new);
    let servers = policy.nameservers();
    let upstream = Upstream::new(proxies, gateway.clone(), policy, told, true);
    let credentials = Credentials { user: config.user.clone(), password: config.password.clone() };
    let start = || {
        let at = |address: Option<SocketAddr>| address.unwrap_or(ANY);
        let relay = config.at.map(|at| at.relay);
        let relay = listener(at(relay)).or_else(|_| listener(ANY))?;
        let resolver = config.at.map(|at| at.resolver);
        let resolver = both(at(resolver)).or_else(|_| both(ANY))?;
        Ok(OutletAddresses {
            relay: upstream.relay(relay, credentials, threads.handle())?,
            resolver: upstream.resolver(resolver, servers, threads.handle())?,
        })
    };
    let addresses = start().map_err(BridgeError::Relay)?;
    change(gateway, values)?;
    ready(&addresses);
    end();
    threads.shutdown_timeout(Duration::from_millis(200));
    Ok(())
}
