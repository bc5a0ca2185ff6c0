//! Who has a port of this computer.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use sandbox_model::{AgentName, PortForward, SandboxName};

use crate::{Context, Target};

/// What listens where a port is to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortHolder {
    /// A sandbox, perhaps the very one that is to publish it.
    Sandbox {
        name: SandboxName,
        port: PortForward,
        agent: Option<AgentName>,
        checkout: PathBuf,
    },
    /// The same call asks for it twice.
    Asked(PortForward),
    Program {
        name: String,
        pid: u32,
    },
    /// A program of another user, most likely: it is not seen from here.
    Unknown,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandbox { name, port, .. } => {
                write!(f, "sandbox `{name}` publishes it already, as {port}")
            }
            Self::Asked(port) => write!(f, "it is asked for twice, also as {port}"),
            Self::Program { name, pid } => write!(f, "`{name}` (process {pid}) has it"),
            Self::Unknown => f.write_str("another program has it"),
        }
    }
}

/// Who listens where `address` would. What cannot be looked at is no reason to fail.
pub fn holder(context: &Context<'_>, address: SocketAddr) -> PortHolder {
    let sandboxes = context.runtime.list().map(|list| list.sandboxes).unwrap_or_default();
    for info in sandboxes.into_iter().filter(|info| !info.status.is_at_rest()) {
        let has = |port: &&PortForward| port.addresses().iter().any(|taken| overlap(*taken, address));
        if let Some(port) = info.spec.ports.iter().find(has).copied() {
            let agent = Target::of(&info.spec).map(|target| target.agent);
            let checkout = info.spec.workspace.source;
            return PortHolder::Sandbox { name: info.spec.name, port, agent, checkout };
        }
    }
    program(address).map_or(PortHolder::Unknown, |(name, pid)| PortHolder::Program { name, pid })
}

/// Whether only one can listen at both. A socket at all of IPv6 is one at all of IPv4 as well.
pub fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: IpAddr, narrow: IpAddr| wide.is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4());
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port() && (a == b || covers(a, b) || covers(b, a))
}

/// A program that listens there, as far as this user may see it: its name and its number.
fn program(address: SocketAddr) -> Option<(String, u32)> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let text: String = tables.iter().filter_map(|table| fs_err::read_to_string(table).ok()).collect();
    let sockets: Vec<PathBuf> = listening(&text)
        .filter(|(place, _)| overlap(*place, address))
        .map(|(_, inode)| PathBuf::from(format!("socket:[{inode}]")))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs_err::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut numbered =
        processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())));
    let has = |process: &Path| {
        let descriptors = fs_err::read_dir(process.join("fd")).into_iter().flatten().filter_map(Result::ok);
        descriptors
            .filter_map(|descriptor| fs_err::read_link(descriptor.path()).ok())
            .any(|open| sockets.contains(&open))
    };
    let (pid, process) = numbered.find(|(_, process)| has(process))?;
    let name = fs_err::read_to_string(process.join("comm")).unwrap_or_default();
    Some((name.trim().into(), pid))
}

/// Sockets of the kernel's tables on which someone listens, and the numbers of them.
fn listening(table: &str) -> impl Iterator<Item = (SocketAddr, u64)> + '_ {
    const LISTENS: &str = "0A";
    table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, LISTENS, _, _, _, _, _, inode, ..] = columns.as_slice() else { return None };
        Some((place(local)?, inode.parse().ok()?))
    })
}

/// `0100007F:1F90` is 127.0.0.1:8080: each four bytes are one number of this machine's order.
fn place(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for word in ip.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        16 => <[u8; 16]>::try_from(bytes).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_listens_is_found_on_either_loopback() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(loopback).unwrap();
            let address = listener.local_addr().unwrap();
            let (name, pid) = program(address).unwrap();
            assert_eq!(pid, std::process::id(), "{loopback}");
            assert!(!name.is_empty());
            drop(listener);
            // Another program may have it by now.
            assert!(program(address).is_none_or(|(_, pid)| pid != std::process::id()), "{loopback}");
        }
    }

    #[test]
    fn addresses_overlap_where_only_one_can_listen() {
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "[::1]:80", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
        ] {
            let (one, other): (SocketAddr, SocketAddr) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{other} {one}");
        }
    }
}
