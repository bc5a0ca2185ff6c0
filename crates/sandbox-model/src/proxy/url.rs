use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SecretValue;

/// How one speaks with a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyScheme {
    /// HTTP, and CONNECT for what is not plain HTTP.
    Http,
    /// HTTP inside of TLS.
    Https,
    /// Addresses where they are known, names else.
    Socks5,
    /// Names.
    Socks5h,
}

impl ProxyScheme {
    const ALL: [Self; 4] = [Self::Http, Self::Https, Self::Socks5, Self::Socks5h];

    /// The word before `://`, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
            Self::Socks5h => "socks5h",
        }
    }

    const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Socks5 | Self::Socks5h => 1080,
        }
    }
}

/// A proxy. It shows itself without its password; serialised, it is for pipes between our own processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProxyUrl {
    /// The protocol; a text without one is HTTP, as curl reads it.
    pub scheme: ProxyScheme,
    /// A name or an address, which has no brackets.
    pub host: String,
    /// From the text, or what is usual for the scheme.
    pub port: u16,
    /// Decoded: without `%40` and the like. `None` where the text has no `@`.
    pub user: Option<String>,
    /// Decoded likewise, and never empty. Written out by [`ProxyUrl::reveal`] alone.
    pub password: Option<SecretValue>,
}

/// Why a text is no proxy, as the end of a sentence that does not repeat the text: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidProxy(pub String);

/// What a proxy may be, for whoever wrote something else.
pub const PROXY_FORMS: &str = "a proxy is http://HOST:PORT, https://…, socks5://… or socks5h://…, with USER:PASSWORD@ before the \
     host where it asks for one (what is special in them as %40 and so on)";

impl ProxyUrl {
    /// Whether it is on this very host, and so in no other network namespace.
    pub fn is_loopback(&self) -> bool {
        let name = self.host.eq_ignore_ascii_case("localhost");
        name || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// With its password, for programs that take it from their environment.
    pub fn reveal(&self) -> SecretValue {
        SecretValue::new(self.written(self.password.as_ref().map(|password| encode(password.reveal()))))
    }

    /// `HOST:PORT`.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn written(&self, password: Option<String>) -> String {
        let user = self.user.as_deref().map(encode).unwrap_or_default();
        let userinfo = match password {
            Some(password) => format!("{user}:{password}@"),
            None if self.user.is_some() => format!("{user}@"),
            None => String::new(),
        };
        format!("{}://{userinfo}{}", self.scheme.as_str(), self.authority())
    }
}

/// The password is written as `***`.
impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.written(self.password.as_ref().map(|_| "***".into())))
    }
}

impl FromStr for ProxyUrl {
    type Err = InvalidProxy;

    fn from_str(text: &str) -> Result<Self, InvalidProxy> {
        let error = |problem: &str| InvalidProxy(problem.into());
        let text = text.trim();
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => {
                let known = ProxyScheme::ALL.into_iter().find(|s| s.as_str().eq_ignore_ascii_case(scheme));
                (known.ok_or_else(|| error("its scheme is none of http, https, socks5 and socks5h"))?, rest)
            }
            // As curl reads it.
            None => (ProxyScheme::Http, text),
        };
        let (userinfo, rest) = match rest.rsplit_once('@') {
            Some((userinfo, rest)) => (Some(userinfo), rest),
            None => (None, rest),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(error("something stands after its host and port"));
        }
        let (user, password) = match userinfo {
            None => (None, None),
            Some(userinfo) => {
                let (user, password) = match userinfo.split_once(':') {
                    Some((user, password)) => (user, Some(password)),
                    None => (userinfo, None),
                };
                let decoded =
                    |text| decode(text).ok_or_else(|| error("its user or password is badly encoded"));
                let password = password.map(decoded).transpose()?.filter(|password| !password.is_empty());
                (Some(decoded(user)?), password.map(SecretValue::new))
            }
        };
        let (host, port) =
            host_and_port(rest).ok_or_else(|| error("it has no host, or no port from 1 to 65535"))?;
        Ok(Self { scheme, host, port: port.unwrap_or(scheme.default_port()), user, password })
    }
}

fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(plain) {
        return None;
    }
    let port = match port {
        None | Some("") => None,
        Some(digits) => Some(digits.parse().ok().filter(|port| *port > 0)?),
    };
    Some((host.to_ascii_lowercase(), port))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digit = |byte: u8| char::from(byte).to_digit(16);
            bytes.push(u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    // A control character would end the header or the field that it stands in.
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_read_and_shown_without_their_password() {
        for (text, shown) in [
            ("http://proxy.corp:3128", "http://proxy.corp:3128"),
            ("proxy.corp:3128/", "http://proxy.corp:3128"),
            ("HTTP://Proxy.Corp", "http://proxy.corp:80"),
            ("https://proxy.corp", "https://proxy.corp:443"),
            ("socks5h://[::1]:9050", "socks5h://[::1]:9050"),
            ("socks5://10.0.0.1", "socks5://10.0.0.1:1080"),
            ("http://CORP%5Cme:p%40ss:w@proxy:8080", "http://CORP%5Cme:***@proxy:8080"),
            ("http://token@proxy:1", "http://token@proxy:1"),
            ("http://:pw@proxy:1", "http://:***@proxy:1"),
        ] {
            let proxy: ProxyUrl = text.parse().unwrap();
            assert_eq!(proxy.to_string(), shown, "{text}");
            assert_eq!(proxy.reveal().reveal().parse(), Ok(proxy.clone()), "{text}");
            assert!(!format!("{proxy:?} {proxy}").contains("p@ss"), "{text}");
        }
        let proxy: ProxyUrl = "http://me:p%40ss:w@proxy:8080".parse().unwrap();
        assert_eq!(proxy.password.unwrap().reveal(), "p@ss:w");
    }

    #[test]
    fn what_is_no_proxy_is_not_repeated() {
        for text in [
            "",
            "ftp://hunter22@x:1",
            "http://u:hunter22@",
            "http://u:hunter22@host:0",
            "http://u:hunter22@host:70000",
            "http://u:hunter22%zz@host:1",
            "http://u:hunter22%0a@host:1",
            "http://u:hunter22@host:1/path",
            "http://u:hunter22@ho st:1",
            "http://[hunter22]:1",
        ] {
            let error = text.parse::<ProxyUrl>().unwrap_err().to_string();
            assert!(!error.contains("hunter22"), "{text}: {error}");
        }
    }

    #[test]
    fn loopback_is_known_by_name_and_address() {
        let is = |text: &str| text.parse::<ProxyUrl>().unwrap().is_loopback();
        assert!(is("localhost:1") && is("127.0.0.2:1") && is("http://[::1]:1"));
        assert!(!is("proxy:1") && !is("10.0.0.1:1"));
    }
}
