/// The largest id that is inside the usual 65,536 ids of a rootless engine, with room above it.
const LARGEST: u32 = 60_000;

/// Who `dev` is for a caller: the caller's own ids, or 1000 in place of an id that is root's or too large
/// for a rootless engine. The share maps the files' owner either way.
pub fn guest_user(uid: u32, gid: u32) -> (u32, u32) {
    let usable = |id: u32| if (1..=LARGEST).contains(&id) { id } else { 1000 };
    if uid == 0 { (1000, 1000) } else { (usable(uid), usable(gid)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dev_is_never_root_and_never_outside_the_mapped_ids() {
        assert_eq!(guest_user(0, 0), (1000, 1000));
        assert_eq!(guest_user(1001, 20), (1001, 20));
        assert_eq!(guest_user(1_200_345, 0), (1000, 1000));
        assert_eq!(guest_user(1001, 1_200_000), (1001, 1000));
    }
}
