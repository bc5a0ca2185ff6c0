//! The three requests of the kernel's routing socket that a static configuration takes (`rtnetlink(7)`).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

use super::addresses::Interface;

// `linux/netlink.h` and `linux/rtnetlink.h`, in the widths that messages have.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFLA_MTU: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const IFF_UP: u32 = 0x1;
const IFA_F_NODAD: u8 = 0x02;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_UNICAST: u8 = 1;
const RTNH_F_ONLINK: u32 = 4;

const HEADER: usize = 16;

/// A message that grows by fixed parts and attributes.
#[derive(Debug, PartialEq, Eq)]
pub struct Request(Vec<u8>);

impl Request {
    fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// Switches a card on, with the size of its packets where one is given.
pub fn link_up(index: u32, mtu: Option<u16>) -> Request {
    // ifinfomsg: family, padding, type, index, flags, which flags to change.
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&IFF_UP.to_ne_bytes());
    fixed[12..16].copy_from_slice(&IFF_UP.to_ne_bytes());
    let request = Request::new(RTM_NEWLINK, 0, &fixed);
    match mtu {
        Some(mtu) => request.attribute(IFLA_MTU, &u32::from(mtu).to_ne_bytes()),
        None => request,
    }
}

/// Gives a card an address, usable at once: nobody else is on this network to ask about duplicates.
pub fn add_address(index: u32, interface: Interface) -> Request {
    // ifaddrmsg: family, prefix, flags, scope, index.
    let mut fixed = [family(interface.address), interface.prefix, IFA_F_NODAD, 0, 0, 0, 0, 0];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let octets = octets(interface.address);
    Request::new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &fixed)
        .attribute(IFA_LOCAL, &octets)
        .attribute(IFA_ADDRESS, &octets)
}

/// Sends everything without a route of its own to `gateway`, which need not be in the card's own network.
pub fn add_default_route(index: u32, gateway: IpAddr) -> Request {
    // rtmsg: family, both prefixes, tos, table, protocol, scope, type, flags.
    let mut fixed = [0; 12];
    fixed[0] = family(gateway);
    fixed[4..8].copy_from_slice(&[RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RTN_UNICAST]);
    fixed[8..12].copy_from_slice(&RTNH_F_ONLINK.to_ne_bytes());
    Request::new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &fixed)
        .attribute(RTA_GATEWAY, &octets(gateway))
        .attribute(RTA_OIF, &index.to_ne_bytes())
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    u8::try_from(family).unwrap_or_default()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The kernel's routing socket.
#[derive(Debug)]
pub struct Routing(OwnedFd);

impl Routing {
    /// A raw socket of the family `NETLINK_ROUTE`. Only root's requests change anything.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        Ok(Self(socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?))
    }

    /// Sends one request and waits for the kernel's verdict.
    pub fn ask(&self, request: Request) -> io::Result<()> {
        send(self.0.as_raw_fd(), &request.finish(), MsgFlags::empty())?;
        let mut answer = [0; 4096];
        let length = recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        verdict(&answer[..length])
    }
}

fn verdict(answer: &[u8]) -> io::Result<()> {
    let field = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match (kind, field(HEADER).map(i32::from_ne_bytes)) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(error)) => Err(io::Error::from_raw_os_error(-error)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not understood")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn an_address_request_has_the_bytes_that_the_kernel_wants() {
        let interface = Interface { address: "192.0.2.2".parse().unwrap(), prefix: 24 };
        let expected = [
            &[40, 0, 0, 0, 20, 0, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[2, 24, 2, 0, 7, 0, 0, 0],
            &[8, 0, 2, 0, 192, 0, 2, 2],
            &[8, 0, 1, 0, 192, 0, 2, 2],
        ]
        .concat();
        assert_eq!(add_address(7, interface).finish(), expected);
    }

    #[test]
    fn the_kernel_itself_understands_the_requests() {
        // A card that does not exist: the refusal shows that the message parsed, whoever runs this.
        let routing = Routing::open().unwrap();
        let interface = Interface { address: "2001:db8::2".parse().unwrap(), prefix: 64 };
        for request in [
            link_up(u32::from(u16::MAX), Some(1500)),
            add_address(u32::from(u16::MAX), interface),
            add_default_route(u32::from(u16::MAX), "2001:db8::1".parse().unwrap()),
        ] {
            let error = routing.ask(request).unwrap_err().raw_os_error();
            assert!(matches!(error, Some(libc::ENODEV | libc::EPERM)), "{error:?}");
        }
    }

    #[test]
    fn an_error_of_the_kernel_is_the_errno() {
        let mut answer = [0_u8; 36];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert!(verdict(&answer).is_ok());
        answer[16..20].copy_from_slice(&(-libc::EEXIST).to_ne_bytes());
        assert_eq!(verdict(&answer).unwrap_err().raw_os_error(), Some(libc::EEXIST));
        assert!(verdict(&answer[..3]).is_err());
    }
}
