//! Which name the guest means by an address.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

use ipnetwork::Ipv4Network;

/// Where placeholders are: a part of the block for measurements between networks, which nobody routes. Others
/// take the lower half of the block for the same purpose.
pub(crate) const PLACEHOLDERS: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 19, 0, 0), 17);
const COUNT: u32 = (1 << 15) - 2;
/// Addresses whose names are remembered, and names of one address.
const REMEMBERED: usize = 8192;
const NAMES: usize = 16;

/// What is known of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// It stands for this name, or for none any more.
    Placeholder(Option<String>),
    /// Names that have it, the latest first.
    Names(Vec<String>),
}

#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    placeholders: HashMap<String, u32>,
    /// The names of the placeholders, by their number.
    named: HashMap<u32, String>,
    next: u32,
    found: HashMap<IpAddr, VecDeque<String>>,
}

/// Whether an address is one that may stand for a name.
pub(crate) fn is_placeholder(address: IpAddr) -> bool {
    let (net, prefix) = PLACEHOLDERS;
    let block = Ipv4Network::new(net, prefix).ok();
    matches!((block, address.to_canonical()), (Some(block), IpAddr::V4(address)) if block.contains(address))
}

impl Names {
    /// The address that stands for a name which this host cannot resolve: the same each time, until as many
    /// others came as there are addresses.
    pub fn placeholder(&self, name: &str) -> Ipv4Addr {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        let number = if let Some(number) = inner.placeholders.get(name) {
            *number
        } else {
            let number = inner.next % COUNT + 1;
            inner.next = number;
            if let Some(former) = inner.named.insert(number, name.into()) {
                inner.placeholders.remove(&former);
            }
            inner.placeholders.insert(name.into(), number);
            number
        };
        Ipv4Addr::from(u32::from(PLACEHOLDERS.0) + number)
    }

    pub fn found(&self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            if inner.found.len() >= REMEMBERED && !inner.found.contains_key(&address) {
                inner.found.clear();
            }
            let names = inner.found.entry(address).or_default();
            names.retain(|known| known != name);
            names.push_front(name.into());
            names.truncate(NAMES);
        }
    }

    pub fn at(&self, address: IpAddr) -> Known {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match address.to_canonical() {
            IpAddr::V4(v4) if is_placeholder(v4.into()) => {
                let number = u32::from(v4) - u32::from(PLACEHOLDERS.0);
                Known::Placeholder(inner.named.get(&number).cloned())
            }
            other => Known::Names(inner.found.get(&other).into_iter().flatten().cloned().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_leads_back_to_its_name_until_it_is_another_ones() {
        let names = Names::default();
        let first = names.placeholder("a.example");
        assert_eq!(first, Ipv4Addr::new(198, 19, 0, 1));
        assert_eq!(names.placeholder("a.example"), first);
        assert_eq!(names.at(first.into()), Known::Placeholder(Some("a.example".into())));
        let other = Ipv4Addr::new(198, 19, 5, 5);
        assert_eq!(names.at(other.into()), Known::Placeholder(None), "given to nobody");
        for number in 1..COUNT {
            assert!(is_placeholder(names.placeholder(&format!("{number}.example")).into()));
        }
        assert_eq!(names.placeholder("last.example"), first, "the oldest goes first");
        assert_eq!(names.at(first.into()), Known::Placeholder(Some("last.example".into())));
        assert_ne!(names.placeholder("a.example"), first);
    }

    #[test]
    fn the_latest_name_of_an_address_is_the_first() {
        let (names, address) = (Names::default(), IpAddr::from([1, 2, 3, 4]));
        for name in ["a", "b", "a"] {
            names.found(name, [address]);
        }
        assert_eq!(names.at(address), Known::Names(vec!["a".into(), "b".into()]));
        assert_eq!(names.at([1, 2, 3, 5].into()), Known::Names(Vec::new()));
    }
}
