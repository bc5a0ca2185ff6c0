use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A TCP port of the host that leads to one of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortForward {
    /// The host's address that is listened on; `None` is its loopback, of both versions.
    pub bind: Option<IpAddr>,
    /// The port that the host listens on, from 1.
    pub host: u16,
    /// The guest's port that connections to it reach, from 1.
    pub guest: u16,
}

/// A text that is no port to publish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no port to publish: {problem}; write HOST:GUEST such as 8080:80, or ADDRESS:HOST:GUEST")]
pub struct InvalidPort {
    /// The refused text, as it was.
    pub text: String,
    /// What is wrong with it, for the middle of a sentence.
    pub problem: String,
}

impl PortForward {
    /// Where the host listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let loopback = || vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let addresses: Vec<IpAddr> = self.bind.map_or_else(loopback, |bind| vec![bind]);
        addresses.into_iter().map(|address| SocketAddr::new(address, self.host)).collect()
    }
}

impl FromStr for PortForward {
    type Err = InvalidPort;

    fn from_str(text: &str) -> Result<Self, InvalidPort> {
        let invalid = |problem: &str| InvalidPort { text: text.into(), problem: problem.into() };
        let port = |digits: &str| match digits.parse() {
            Ok(port @ 1..) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(port),
            _ => Err(invalid(&format!("`{digits}` is no port; one is from 1 to 65535"))),
        };
        let trimmed = text.trim();
        let (rest, guest) = trimmed.rsplit_once(':').unwrap_or((trimmed, trimmed));
        let guest = port(guest)?;
        let Some((bind, host)) = rest.rsplit_once(':') else {
            return Ok(Self { bind: None, host: port(rest)?, guest });
        };
        let bare = bind.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let bind: IpAddr = bare
            .unwrap_or(bind)
            .parse()
            .map_err(|_| invalid(&format!("`{bind}` is no address of this machine")))?;
        if bind.is_ipv6() != bare.is_some() {
            return Err(invalid("an IPv6 address stands in brackets, and no other does"));
        }
        Ok(Self { bind: Some(bind), host: port(host)?, guest })
    }
}

impl fmt::Display for PortForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bind {
            None => write!(f, "{}:{}", self.host, self.guest),
            Some(bind) => write!(f, "{}:{}", SocketAddr::new(bind, self.host), self.guest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (text, written, first) in [
            ("8080:80", "8080:80", "127.0.0.1:8080"),
            ("3000", "3000:3000", "127.0.0.1:3000"),
            ("0.0.0.0:8080:80", "0.0.0.0:8080:80", "0.0.0.0:8080"),
            ("[::1]:8080:80", "[::1]:8080:80", "[::1]:8080"),
        ] {
            let port: PortForward = text.parse().unwrap();
            assert_eq!(port.to_string(), written);
            assert_eq!(port.addresses()[0], first.parse().unwrap());
            assert_eq!(written.parse(), Ok(port));
        }
        let both: PortForward = "1:2".parse().unwrap();
        assert_eq!(both.addresses(), ["127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()]);
        for text in [
            "",
            "0:80",
            "80:0",
            "80:65536",
            "a:80",
            "80:",
            "host:80:80",
            "::1:80:80",
            "[1.2.3.4]:1:2",
            "+1:2",
        ] {
            let error = text.parse::<PortForward>().unwrap_err().to_string();
            assert!(error.contains("HOST:GUEST"), "{text}: {error}");
        }
    }
}
