use std::fs::File;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use microsandbox_network::config::ResolvedNetworkConfig;
use microsandbox_network::network::{NetworkInitError, SmoltcpNetwork};
use microsandbox_types::DeploymentProfile;
use sandbox_model::{NetworkPolicy, Proxies, SecretValues};
use sandbox_wire::BootNetwork;
use serde::{Deserialize, Serialize};

use crate::begin::{Begun, begin, change};
use crate::compile::{Compiled, compile};
use crate::entry::PolicyError;
use crate::framing::OversizedFrame;
use crate::rights::EndsWith;
pub use crate::rights::RunAs;
use crate::secrets::{self, BridgeSecrets, SecretError};
use crate::turns::Turns;
use crate::upstream::Upstream;
use crate::watch::Watch;
use crate::{GuestAddresses, MAX_SLOT, floor, pump, rights, upstream};

/// What a bridge is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BridgeConfig {
    /// What the guest may reach. It stays so until the bridge ends.
    pub policy: NetworkPolicy,
    /// Decides the guest's addresses; at most [`MAX_SLOT`]. Guests never see each other, so that any
    /// number of them may have the same.
    pub slot: u16,
    /// With them the bridge looks into TLS; without, it does not.
    #[serde(default)]
    pub secrets: Option<BridgeSecrets>,
    /// Through which proxies this host reaches the world; none where it does so itself.
    #[serde(default)]
    pub proxies: Option<Proxies>,
    /// Whom to become before the guest is served; root becomes nobody if nothing is said. Only root can.
    pub run_as: Option<RunAs>,
    /// What goes to stderr beside denials: a filter of the `tracing` family. The default is `warn`.
    pub log: Option<String>,
}

/// Why a bridge does not serve its guest.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("network slot {0} is larger than {MAX_SLOT}")]
    Slot(u16),
    #[error("the bridge cannot drop its rights: {0}")]
    Rights(#[source] std::io::Error),
    #[error("the network engine cannot be started: {0}")]
    Engine(#[from] NetworkInitError),
    #[error("the network engine's threads cannot be started: {0}")]
    Threads(#[source] std::io::Error),
    #[error("the relay cannot be started: {0}")]
    Relay(#[source] std::io::Error),
    #[error("the socket to QEMU failed: {0}")]
    Socket(#[source] std::io::Error),
    #[error(transparent)]
    Frame(#[from] OversizedFrame),
}

/// Serves the card of one guest until QEMU closes its end of `guest`; `ready` is called once with what the
/// guest must be told, when frames are about to flow.
///
/// `values` are other values of secrets, whenever there are some: they count for connections that begin then.
///
/// Each thing that the guest tries becomes an [`Event`](crate::Event) in `events`, one JSON document a line.
///
/// Owns the process: it drops rights for good, ends with the thread that spawned it, and leaves the
/// engine's thread behind, which has no end of its own. Call it once, from a process that has no other threads,
/// and leave that process afterwards. Its parent must spawn it from a thread that lives as long as the machine.
pub fn bridge(
    config: &BridgeConfig,
    guest: UnixStream,
    events: Option<File>,
    values: impl Iterator<Item = SecretValues> + Send + 'static,
    ready: impl FnOnce(&BootNetwork),
) -> Result<(), BridgeError> {
    rights::drop_rights(config.run_as, EndsWith::Parent).map_err(BridgeError::Rights)?;
    rights::end_with_the_engine();
    if config.slot > MAX_SLOT {
        return Err(BridgeError::Slot(config.slot));
    }
    let mut policy = compile(&config.policy, GuestAddresses::of(config.slot), &floor::local_addresses())?;
    let proxies = config.proxies.clone().map(Arc::new);
    if proxies.is_some() {
        policy = policy.with_placeholders(upstream::PLACEHOLDERS);
    }
    if let Some(secrets) = &config.secrets {
        policy = policy.without_datagrams(&secrets::ports(&secrets.secrets));
    }
    let policy = Arc::new(policy);
    let Begun { told, threads, gateway } =
        begin(&policy, config.secrets.as_ref(), config.log.as_deref(), events)?;
    let mut engine = policy.engine_config();
    let relay = (proxies.is_some() || gateway.is_some())
        .then(|| {
            Upstream::new(proxies.clone(), gateway.clone(), Arc::clone(&policy), told.clone(), false)
                .beside(&mut engine, threads.handle())
        })
        .transpose()
        .map_err(BridgeError::Relay)?;
    let mut network = SmoltcpNetwork::new(
        ResolvedNetworkConfig::new(engine, relay),
        config.slot,
        // The other profile forgets ports, resolvers and addresses.
        DeploymentProfile::SingleTenant,
    )?;
    network.start(threads.handle().clone());
    change(gateway, values)?;
    let mut backend = network.take_backend();
    let mut boot = boot_network(&network, &policy);
    boot.extra_ca_pem = config.secrets.as_ref().map(|secrets| secrets.authority.certificate.clone());
    let mut watch = Watch::new(policy, told, proxies);
    ready(&boot);
    let mut turns = Turns::new(GuestAddresses::of(config.slot));
    let outcome = pump::pump(guest, &mut *backend, &mut watch, &mut turns);
    threads.shutdown_timeout(Duration::from_millis(200));
    outcome
}

/// What the guest must be told: nothing behind the card answers DHCP or router solicitations.
fn boot_network(network: &SmoltcpNetwork, policy: &Compiled) -> BootNetwork {
    let given = network.guest_bootstrap_network();
    let (v4, v6) = (given.ipv4, given.ipv6);
    let resolver = v4.as_ref().and_then(|v4| v4.dns).map(|dns| dns.to_string());
    let resolver = resolver.or_else(|| v6.as_ref().and_then(|v6| v6.dns).map(|dns| dns.to_string()));
    BootNetwork {
        ipv4: v4.as_ref().map(|v4| format!("{}/{}", v4.address, v4.prefix_len)),
        ipv4_gateway: v4.as_ref().map(|v4| v4.gateway.to_string()),
        hosts: policy.hosts(v6.is_some()),
        ipv6: v6.as_ref().map(|v6| format!("{}/{}", v6.address, v6.prefix_len)),
        ipv6_gateway: v6.as_ref().map(|v6| v6.gateway.to_string()),
        mtu: given.mtu,
        nameservers: resolver.into_iter().collect(),
        extra_ca_pem: None,
    }
}
