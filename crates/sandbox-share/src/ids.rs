//! Which user the guest sees on a file, and which one the host gets.

use virtiofsd::soft_idmap::cmdline::IdMap;

/// Shown for a stranger whose number is the guest user's own: nobody, on every Linux.
const NOBODY: u32 = 65_534;

/// The map of one kind of id (users or groups).
///
/// Whoever acts in the guest acts as `acting` on the host, so no request ever needs another identity
/// than the process has. Files of `owner` show as `guest`; other host ids show as they are, except
/// that a stranger never passes for the guest's own user.
pub(crate) fn map(owner: u32, acting: u32, guest: u32) -> Vec<IdMap> {
    let mut map = vec![
        IdMap::SquashGuest { from_guest: 0, to_host: acting, count: u32::MAX },
        IdMap::Host { from_host: owner, to_guest: guest, count: 1 },
    ];
    if acting != owner {
        map.push(IdMap::Host { from_host: acting, to_guest: guest, count: 1 });
    }
    if guest != owner && guest != acting {
        map.push(IdMap::SquashHost { from_host: guest, to_guest: NOBODY, count: 1 });
    }
    map
}

#[cfg(test)]
mod tests {
    use virtiofsd::soft_idmap::{GuestUid, HostUid, Id, IdMap as Translation};

    use super::*;

    fn translation(owner: u32, acting: u32, guest: u32) -> Translation<GuestUid, HostUid> {
        map(owner, acting, guest).try_into().unwrap()
    }

    fn shown(map: &Translation<GuestUid, HostUid>, host: u32) -> u32 {
        map.map_host(HostUid::from(host)).unwrap().into_inner()
    }

    #[test]
    fn everyone_in_the_guest_acts_as_the_owner() {
        let map = translation(1234, 1234, 1000);
        for guest in [0, 33, 1000, 1234, 65_534, u32::MAX - 1] {
            assert_eq!(map.map_guest(GuestUid::from(guest)).unwrap().into_inner(), 1234);
        }
    }

    #[test]
    fn the_owner_shows_as_the_guest_user() {
        assert_eq!(shown(&translation(1234, 1234, 1000), 1234), 1000);
        assert_eq!(shown(&translation(0, 0, 1000), 0), 1000);
        assert_eq!(shown(&translation(1000, 1000, 1000), 1000), 1000);
        assert_eq!(shown(&translation(50, 60, 1000), 60), 1000);
    }

    #[test]
    fn strangers_show_as_themselves_but_never_as_the_guest_user() {
        let map = translation(0, 0, 1000);
        assert_eq!(shown(&map, 33), 33);
        assert_eq!(shown(&map, 1000), NOBODY);
    }
}
