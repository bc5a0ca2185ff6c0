use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use sandbox_config::{Origin, ProxySetting, Settings};
use sandbox_model::{Proxies, ProxyUrl};

use super::Finding;
use crate::settings::proxies;

const CHECK: &str = "proxy";
const PATIENCE: Duration = Duration::from_secs(2);

/// Which proxies are used, and whether somebody is there; nothing where there is none.
pub fn check(settings: &Settings) -> Option<Finding> {
    match proxies(settings) {
        Ok(None) => None,
        Ok(Some(proxies)) => Some(found(settings, &proxies)),
        Err(error) => {
            let hint = error.hints.first().cloned().unwrap_or_default();
            Some(Finding::missing(CHECK, error.message, hint))
        }
    }
}

fn found(settings: &Settings, proxies: &Proxies) -> Finding {
    let from = match (&settings.network_proxy.value, &settings.network_proxy.origin) {
        (ProxySetting::Url(_), origin) => format!("network.proxy, {origin}"),
        (ProxySetting::Auto | ProxySetting::None, _) => "of the environment".into(),
    };
    let direct = match proxies.direct.to_string() {
        list if list.is_empty() => String::new(),
        list => {
            let of_settings = settings.network_no_proxy.origin != Origin::Default;
            format!("; directly{}: {list}", if of_settings { "" } else { " (NO_PROXY)" })
        }
    };
    let list: Vec<String> = proxies.each().into_iter().map(ToString::to_string).collect();
    let detail = format!("{} ({from}){direct}", list.join(", "));
    match proxies.each().into_iter().find_map(|proxy| Some((proxy, silent(proxy)?))) {
        None => Finding::good(CHECK, detail),
        Some((proxy, problem)) => Finding::note(
            CHECK,
            format!("{detail}; {proxy} does not answer: {problem}"),
            "sandboxes reach nothing through it; `network.proxy: none` in your settings is to use none",
        ),
    }
}

/// Why nobody takes a connection there, if nobody does.
fn silent(proxy: &ProxyUrl) -> Option<String> {
    let addresses = match (proxy.host.as_str(), proxy.port).to_socket_addrs() {
        Ok(addresses) => addresses.collect::<Vec<SocketAddr>>(),
        Err(error) => return Some(error.to_string()),
    };
    let mut problem = Some("its name has no address".to_string());
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return None,
            Err(error) => problem = Some(error.to_string()),
        }
    }
    problem
}
