//! The quota: what costs, what gives back, and where it ends.

use std::fs;

use super::*;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

impl Guest {
    fn left(&self) -> u64 {
        let space = self.share.statfs(context(), ROOT).unwrap();
        space.f_bavail * space.f_frsize
    }

    /// Writes a mebibyte at a time until the file is `mebibytes` long or the guest is told to stop.
    fn fill(&self, name: &str, mebibytes: u64) -> (u64, io::Result<()>) {
        let (node, handle) = self.create(ROOT, name).unwrap();
        let block = vec![7; usize::try_from(MIB).unwrap()];
        let mut result = Ok(());
        for at in 0..mebibytes {
            result = self.write(node, handle, at * MIB, &block).map(drop);
            if result.is_err() {
                break;
            }
        }
        self.close(node, handle);
        (node, result)
    }

    fn allocate(&self, node: u64, mode: i32, offset: u64, length: u64) -> io::Result<()> {
        let handle = self.open(node, libc::O_RDWR)?;
        let result = self.share.fallocate(context(), node, handle, mode.cast_unsigned(), offset, length);
        self.close(node, handle);
        result
    }
}

/// Within `slack` of the quota: a file system spends a block here and there on its own.
#[track_caller]
fn about(actual: u64, expected: u64) {
    let slack = 16 * BLOCK;
    assert!(actual.abs_diff(expected) <= slack, "{actual} is not about {expected}");
}

#[test]
fn writing_stops_at_the_quota() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    let (_, result) = guest.fill("big", 100);
    assert_eq!(number(result), Some(libc::ENOSPC));
    let size = fs::metadata(guest.host("big")).unwrap().len();
    assert!((63 * MIB..=64 * MIB).contains(&size), "{size}");
    assert!(guest.left() <= MIB);
}

#[test]
fn without_a_quota_the_same_file_is_written_whole() {
    let guest = Guest::with(PLENTY, 0);
    let (_, result) = guest.fill("big", 100);
    assert!(result.is_ok());
    assert_eq!(fs::metadata(guest.host("big")).unwrap().len(), 100 * MIB);
}

#[test]
fn the_guest_sees_a_disk_of_the_quotas_size() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    guest.fill("f", 16).1.unwrap();
    let space = guest.share.statfs(context(), ROOT).unwrap();
    assert_eq!(space.f_blocks * space.f_frsize, 64 * MIB);
    about((space.f_blocks - space.f_bfree) * space.f_frsize, 16 * MIB);
}

#[test]
fn removing_gives_all_back() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    guest.fill("big", 40).1.unwrap();
    about(guest.left(), 24 * MIB);
    guest.unlink(ROOT, "big").unwrap();
    about(guest.left(), 64 * MIB);
    guest.fill("again", 60).1.unwrap();
}

#[test]
fn a_hole_costs_nothing_and_a_block_costs_a_block() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    let (node, handle) = guest.create(ROOT, "sparse").unwrap();
    guest.resize(node, 10_000 * MIB).unwrap();
    about(guest.left(), 64 * MIB);
    let before = guest.left();
    guest.write(node, handle, 5_000 * MIB, &[1; 4096]).unwrap();
    // One block of data, and perhaps one that tells where it is.
    assert!((BLOCK..=2 * BLOCK).contains(&(before - guest.left())));
    guest.close(node, handle);
}

#[test]
fn allocating_in_advance_costs_and_punching_gives_back() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    let node = guest.make("f", b"");
    assert_eq!(number(guest.allocate(node, 0, 0, 100 * MIB)), Some(libc::ENOSPC));
    guest.allocate(node, 0, 0, 30 * MIB).unwrap();
    about(guest.left(), 34 * MIB);
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    guest.allocate(node, punch, 0, 20 * MIB).unwrap();
    about(guest.left(), 54 * MIB);
    guest.allocate(node, libc::FALLOC_FL_KEEP_SIZE, 30 * MIB, 40 * MIB).unwrap();
    about(guest.left(), 14 * MIB);
    guest.resize(node, 0).unwrap();
    about(guest.left(), 64 * MIB);
}

#[test]
fn an_unlinked_file_is_charged_until_it_is_closed() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    let (node, result) = guest.fill("f", 30);
    result.unwrap();
    let handle = guest.open(node, libc::O_RDWR).unwrap();
    guest.unlink(ROOT, "f").unwrap();
    about(guest.left(), 34 * MIB);
    guest.close(node, handle);
    about(guest.left(), 64 * MIB);
}

#[test]
fn what_an_open_cuts_is_credited_once() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    let (node, written) = guest.create(ROOT, "f").unwrap();
    guest.write(node, written, 0, &vec![7; usize::try_from(30 * MIB).unwrap()]).unwrap();
    about(guest.left(), 34 * MIB);
    let cutting = guest.open(node, libc::O_WRONLY | libc::O_TRUNC).unwrap();
    about(guest.left(), 64 * MIB);
    guest.close(node, cutting);
    guest.close(node, written);
    about(guest.left(), 64 * MIB);
}

#[test]
fn appending_costs_wherever_the_guest_says_it_writes() {
    let guest = Guest::with(PLENTY, 8 * MIB);
    let (node, _) = guest.fill("f", 9);
    let size = || fs::metadata(guest.host("f")).unwrap().len();
    let before = size();
    let handle = guest.open(node, libc::O_RDWR).unwrap();
    let data = vec![8; usize::try_from(MIB).unwrap()];
    assert_eq!(number(guest.append(node, handle, &data, false)), Some(libc::ENOSPC));
    assert_eq!(size(), before);
    // From the cache it goes where the guest says, over what is there.
    guest.append(node, handle, &data, true).unwrap();
    assert_eq!(size(), before);
    guest.resize(node, MIB).unwrap();
    guest.append(node, handle, &data, false).unwrap();
    assert_eq!(size(), 2 * MIB);
    guest.close(node, handle);
}

#[test]
fn what_is_no_longer_charged_is_no_longer_on_the_disk() {
    // A guest may keep a removed file in mind without having it open; it must not keep its space.
    let guest = Guest::with(PLENTY, 64 * MIB);
    let (node, result) = guest.fill("f", 30);
    result.unwrap();
    guest.unlink(ROOT, "f").unwrap();
    about(guest.left(), 64 * MIB);
    assert_eq!(number(guest.attributes(node)), Some(libc::ESTALE));
    assert_eq!(guest.descriptors(), 1);
}

#[test]
fn a_file_renamed_over_gives_its_space_back() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    guest.fill("victim", 30).1.unwrap();
    guest.fill("new", 10).1.unwrap();
    guest.rename((ROOT, "new"), (ROOT, "victim"), 0).unwrap();
    about(guest.left(), 54 * MIB);
}

#[test]
fn only_the_last_name_gives_the_space_back() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    let (node, result) = guest.fill("f", 30);
    result.unwrap();
    guest.share.link(context(), node, ROOT, c"g").unwrap();
    guest.unlink(ROOT, "f").unwrap();
    about(guest.left(), 34 * MIB);
    guest.unlink(ROOT, "g").unwrap();
    about(guest.left(), 64 * MIB);
}

#[test]
fn overwriting_in_place_is_free_even_when_all_is_used() {
    let guest = Guest::with(PLENTY, 8 * MIB);
    let (node, _) = guest.fill("f", 9);
    let size = fs::metadata(guest.host("f")).unwrap().len();
    let handle = guest.open(node, libc::O_RDWR).unwrap();
    guest.write(node, handle, 0, &vec![8; usize::try_from(size).unwrap()]).unwrap();
    guest.close(node, handle);
    let before = guest.left();
    assert!(before < MIB);
}

#[test]
fn the_hosts_own_files_cost_nothing_and_count_when_they_go() {
    let guest = Guest::with(PLENTY, 8 * MIB);
    fs::write(guest.host("old"), vec![1; usize::try_from(4 * MIB).unwrap()]).unwrap();
    File::open(guest.host("old")).unwrap().sync_all().unwrap();
    about(guest.left(), 8 * MIB);
    guest.unlink(ROOT, "old").unwrap();
    about(guest.left(), 12 * MIB);
}

#[test]
fn copying_within_the_share_costs() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    let (from, result) = guest.fill("from", 40);
    result.unwrap();
    let to = guest.make("to", b"");
    let (source, target) =
        (guest.open(from, libc::O_RDONLY).unwrap(), guest.open(to, libc::O_WRONLY).unwrap());
    let copy = |at: u64, length: u64| {
        guest.share.copyfilerange(context(), from, source, at, to, target, at, length, 0)
    };
    assert_eq!(number(copy(0, 40 * MIB)), Some(libc::ENOSPC));
    assert!(copy(0, 10 * MIB).is_ok());
    assert!(guest.left() <= 14 * MIB + 16 * BLOCK);
}

#[test]
fn files_are_counted_even_when_they_are_empty() {
    let guest = Guest::with(PLENTY, 2 * MIB);
    let made = (0..10_000).take_while(|number| guest.mknod(&format!("n{number}")).is_ok()).count();
    assert_eq!(guest.mknod("more"), Err(libc::ENOSPC));
    assert!(made > 100 && made <= 512, "{made}");
    assert_eq!(guest.share.statfs(context(), ROOT).unwrap().f_favail, 512 - made as u64);
    guest.unlink(ROOT, "n0").unwrap();
    assert_eq!(guest.mknod("again"), Ok(()));
}

impl Guest {
    fn mknod(&self, name: &str) -> Result<(), i32> {
        let made =
            self.share.mknod(context(), ROOT, &c(name), libc::S_IFREG | 0o600, 0, 0, Extensions::default());
        made.map(drop).map_err(|error| error.raw_os_error().unwrap())
    }
}

#[test]
fn a_guest_that_goes_away_leaves_no_charge_for_its_removed_files() {
    let guest = Guest::with(PLENTY, 64 * MIB);
    let (node, result) = guest.fill("f", 30);
    result.unwrap();
    guest.open(node, libc::O_RDWR).unwrap();
    guest.unlink(ROOT, "f").unwrap();
    about(guest.left(), 34 * MIB);
    guest.share.init(FsOptions::all()).unwrap();
    about(guest.left(), 64 * MIB);
}

#[test]
fn holes_behind_which_was_allocated_in_advance_do_not_pass_the_quota() {
    let guest = Guest::with(PLENTY, 8 * MIB);
    let files = ["f", "g"].map(|name| {
        let node = guest.make(name, b"");
        guest.resize(node, 3 * MIB).unwrap();
        guest.allocate(node, libc::FALLOC_FL_KEEP_SIZE, 3 * MIB, 3 * MIB).unwrap();
        node
    });
    let block = vec![7; usize::try_from(MIB).unwrap()];
    let mut written = 0;
    for node in files {
        let handle = guest.open(node, libc::O_RDWR).unwrap();
        for at in 0..3 {
            match guest.write(node, handle, at * MIB, &block) {
                Ok(_) => written += 1,
                result => assert_eq!(number(result), Some(libc::ENOSPC)),
            }
        }
        guest.close(node, handle);
    }
    // What there is room for, and what a file system may have spent on its own.
    assert!((2..=4).contains(&written), "{written}");
}

#[test]
fn past_the_quota_a_file_without_holes_is_still_written_over() {
    let guest = Guest::with(PLENTY, 8 * MIB);
    let (whole, result) = guest.fill("whole", 2);
    result.unwrap();
    let ahead = guest.make("ahead", b"");
    guest.resize(ahead, 5 * MIB).unwrap();
    guest.allocate(ahead, libc::FALLOC_FL_KEEP_SIZE, 5 * MIB, 5 * MIB).unwrap();
    let block = vec![7; usize::try_from(MIB).unwrap()];
    let holes = guest.open(ahead, libc::O_RDWR).unwrap();
    let filled = (0..5).map(|at| guest.write(ahead, holes, at * MIB, &block));
    let refused = filled.map(number).find(Option::is_some).flatten();
    assert_eq!(refused, Some(libc::ENOSPC), "it is passed, and goes no further");
    let handle = guest.open(whole, libc::O_RDWR).unwrap();
    guest.write(whole, handle, MIB, &block).unwrap();
    // From the guest's page cache: whoever wrote it was told long ago that it is written.
    guest.append(whole, handle, &block, true).unwrap();
    assert_eq!(number(guest.write(whole, handle, 2 * MIB, &block)), Some(libc::ENOSPC), "nor does it grow");
    guest.close(whole, handle);
    guest.close(ahead, holes);
}

#[test]
fn holes_that_were_prepared_before_the_server_started_do_not_pass_the_quota() {
    let guest = Guest::with(PLENTY, 16 * MIB);
    let node = guest.make("f", b"");
    guest.resize(node, 7 * MIB).unwrap();
    guest.allocate(node, libc::FALLOC_FL_KEEP_SIZE, 7 * MIB, 7 * MIB).unwrap();
    let Guest { share, dir } = guest;
    drop(share);
    let guest = Guest::on(dir, PLENTY, PLENTY, 2 * MIB);
    let node = guest.node("f");
    let handle = guest.open(node, libc::O_RDWR).unwrap();
    let block = vec![7; usize::try_from(MIB).unwrap()];
    let results: Vec<_> = (0..7).map(|at| number(guest.write(node, handle, at * MIB, &block))).collect();
    let written = results.iter().filter(|result| result.is_none()).count();
    // What there is room for, and what a file system may have spent on its own.
    assert!((2..=4).contains(&written), "{results:?}");
    assert!(results[written..].iter().all(|result| *result == Some(libc::ENOSPC)), "{results:?}");
    guest.write(node, handle, 0, &block).unwrap();
    guest.close(node, handle);
}

#[test]
fn what_the_file_system_allocates_on_its_own_is_never_credited() {
    for (cuts, starts_again) in [(false, false), (true, false), (false, true)] {
        let guest = Guest::with(PLENTY, 8 * MIB);
        let before = guest.left();
        for round in 0..30 {
            let name = format!("f{round}");
            let (node, handle) = guest.create(ROOT, &name).unwrap();
            // Scattered: some file systems need a block more to tell where the data is, once it is on the disk.
            for at in 0..5 {
                guest.write(node, handle, 2 * at * BLOCK, &[7; 4096]).unwrap();
            }
            guest.share.fsync(context(), node, false, handle).unwrap();
            if cuts {
                guest.resize(node, 0).unwrap();
            }
            guest.close(node, handle);
            if starts_again {
                guest.share.init(FsOptions::all()).unwrap();
            }
            guest.unlink(ROOT, &name).unwrap();
        }
        assert!(guest.left() <= before, "{} more", guest.left() - before);
        about(guest.left(), before);
    }
}

#[test]
fn nothing_is_made_that_cannot_be_opened_and_charged() {
    let guest = Guest::limited(40, 60, MIB);
    let node = guest.make("f", b"x");
    let opened = (0..100).take_while(|_| guest.open(node, libc::O_RDONLY).is_ok()).count();
    assert!(opened < 100);
    for round in 0..10 {
        assert_eq!(number(guest.mkdir(ROOT, &format!("d{round}"))), Some(libc::ENFILE));
        assert_eq!(number(guest.create(ROOT, &format!("f{round}"))), Some(libc::ENFILE));
    }
    assert_eq!(fs::read_dir(guest.dir.path()).unwrap().count(), 1);
}
