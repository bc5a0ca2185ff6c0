//! Ends TCP connections whose other side is gone.
//!
//! After a sleep the host has a new network bridge, which knows none of the guest's connections. A client
//! that waits for an answer on one would wait for ever. Taking its socket and disconnecting it gives the
//! client `ECONNRESET` at once; connections inside the guest are left alone.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;

use crate::sys;

/// States in which somebody may wait for the other side: established, both kinds of opening, half closed.
const WAITING: [&str; 5] = ["01", "02", "04", "05", "08"];

/// The connections to other machines, by the inodes of their sockets.
pub fn to_other_machines() -> io::Result<HashSet<u64>> {
    let mut sockets = HashSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match fs_err::read_to_string(table) {
            Ok(text) => sockets.extend(to_others(&text)),
            // A kernel without one of the two protocols.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sockets)
}

/// Resets these connections, whoever holds them. Returns how many it found.
pub fn reset(mut sockets: HashSet<u64>) -> io::Result<usize> {
    let mut count = 0;
    if sockets.is_empty() {
        return Ok(count);
    }
    for process in fs_err::read_dir("/proc")?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process may end while it is looked at.
        let Ok(descriptors) = fs_err::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let Some(inode) = socket_of(&descriptor.path()) else { continue };
            let number = descriptor.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            if let Some(number) = number.filter(|_| sockets.contains(&inode))
                && let Ok(socket) = sys::descriptor_of(pid, number)
                && sys::disconnect(socket.as_fd()).is_ok()
            {
                sockets.remove(&inode);
                count += 1;
            }
        }
    }
    Ok(count)
}

fn socket_of(link: &std::path::Path) -> Option<u64> {
    let target = fs_err::read_link(link).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Inodes of the sockets in a table of the kernel's that are connected to another machine.
fn to_others(table: &str) -> Vec<u64> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(2);
            let (remote, state) = (fields.next()?, fields.next()?);
            let inode = fields.nth(5)?.parse().ok()?;
            (WAITING.contains(&state) && !is_this_machine(remote)).then_some(inode)
        })
        .collect()
}

/// Whether an address as the kernel prints it (words in the machine's byte order) is a loopback one.
fn is_this_machine(remote: &str) -> bool {
    let address = remote.split(':').next().unwrap_or_default();
    match address.len() {
        8 => address.ends_with("7F"),
        32 => {
            address == "00000000000000000000000001000000"
                || (address.starts_with("0000000000000000FFFF0000") && address.ends_with("7F"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1000 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 10 1 0 100 0 0 10 0
   1: 0100007F:1000 0100007F:8000 01 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 20 4 30 10 -1
   2: 02020264:8001 0A000001:01BB 01 00000000:00000000 02:0000 00000000  1000        0 12 1 0 20 4 30 10 -1
   3: 02020264:8002 0A000001:01BB 06 00000000:00000000 03:0000 00000000     0        0 0 3 0
   4: 02020264:8003 0A000001:01BB 08 00000000:00000000 00:0000 00000000  1000        0 13 1 0 20 4 30 10 -1
";

    #[test]
    fn only_connections_to_other_machines_count() {
        assert_eq!(to_others(TABLE), [12, 13]);
        assert!(is_this_machine("00000000000000000000000001000000:1F90"));
        assert!(is_this_machine("0000000000000000FFFF00000100007F:1F90"));
        assert!(!is_this_machine("0000000000000000FFFF00000A000001:1F90"));
    }

    #[test]
    fn a_reset_connection_wakes_who_reads_it() {
        use std::io::Read;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _server = listener.accept().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&client);
        let reader = std::thread::spawn(move || client.read(&mut [0]));
        let me = std::process::id().cast_signed();
        let socket = sys::descriptor_of(me, fd).unwrap();
        sys::disconnect(socket.as_fd()).unwrap();
        // An error or the end: in no case does the reader go on waiting.
        let outcome = reader.join().unwrap();
        assert!(matches!(&outcome, Ok(0) | Err(_)), "{outcome:?}");
    }
}
