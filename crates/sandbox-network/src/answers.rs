//! What a resolver's answer says, on its way to the guest.

use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, RecordType};
use microsandbox_network::shared::ResolvedHostnameFamily;

use crate::watch::packet;

/// A name and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// In lower case, without its last dot.
    pub name: String,
    pub family: ResolvedHostnameFamily,
    pub addresses: Vec<IpAddr>,
    pub ttl: Duration,
}

/// What came of asking for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Found(Found),
    /// A name, in lower case and without its last dot, and why it has no address.
    Unresolved(String, &'static str),
}

/// The addresses in a datagram from port 53, or why there are none.
pub(crate) fn answer(frame: &[u8]) -> Option<Answer> {
    let (17, _, datagram) = packet(frame)? else { return None };
    if u16::from_be_bytes([*datagram.first()?, *datagram.get(1)?]) != 53 {
        return None;
    }
    let message = Message::from_vec(datagram.get(8..)?).ok()?;
    let query = message.queries.first()?;
    let family = match query.query_type() {
        RecordType::A => ResolvedHostnameFamily::Ipv4,
        RecordType::AAAA => ResolvedHostnameFamily::Ipv6,
        _ => return None,
    };
    let name = query.name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
    let why = match message.metadata.response_code {
        ResponseCode::NoError => None,
        ResponseCode::NXDomain => Some("this host's resolver knows no such name"),
        ResponseCode::ServFail => Some("this host's resolver does not answer, or cannot find it out"),
        _ => Some("this host's resolver refuses to say"),
    };
    if let Some(why) = why {
        return Some(Answer::Unresolved(name, why));
    }
    let records = message.answers.iter().filter_map(|record| {
        let address = match record.data {
            RData::A(ref address) => IpAddr::V4(address.0),
            RData::AAAA(ref address) => IpAddr::V6(address.0),
            _ => return None,
        };
        Some((address, record.ttl))
    });
    let (addresses, ttls): (Vec<IpAddr>, Vec<u32>) = records.unzip();
    // A name without an address of one family may well have one of the other.
    let ttl = Duration::from_secs(ttls.into_iter().min()?.into());
    Some(Answer::Found(Found { name, family, addresses, ttl }))
}
