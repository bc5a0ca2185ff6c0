//! A network of the case's own, and another behind it: a world with servers at real addresses and the usual
//! ports, none of which is the host itself.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, exit};
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::sched::{CloneFlags, unshare};

/// Set in the process that has one.
const OWN: &str = "SANDBOX_TEST_OWN_NETWORK";

/// Runs the case of this name again in a network of its own: in the process that a person started, this does
/// not return.
pub fn in_own_network(case: &str) -> Outside {
    if std::env::var_os(OWN).is_some() {
        return Outside::new();
    }
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", case, "--nocapture", "--test-threads=1"])
        .env(OWN, "1")
        .status()
        .expect("unshare (util-linux) is needed");
    assert!(status.success(), "{case} in its own network: {status}");
    exit(0);
}

type Errand = Box<dyn FnOnce() + Send>;

/// A thread in the network behind the case's own, where 44.55.66.10, .20 and .30 are, and
/// 2606:4700:44::10, ::20 and ::30.
pub struct Outside {
    errands: Sender<Errand>,
}

impl Outside {
    fn new() -> Self {
        let (errands, todo) = channel::<Errand>();
        let (ready, told) = channel();
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            ready.send(nix::unistd::gettid()).unwrap();
            for errand in todo {
                errand();
            }
        });
        let outside = Self { errands };
        let thread = told.recv().unwrap();
        ip(&format!("link add inside type veth peer name outside netns {thread}"));
        for command in [
            "link set lo up",
            "address add 44.55.66.1/24 dev inside",
            "address add 2606:4700:44::1/64 dev inside nodad",
            "link set inside up",
        ] {
            ip(command);
        }
        outside.run(|| {
            for last in [10, 20, 30] {
                ip(&format!("address add 44.55.66.{last}/24 dev outside"));
                ip(&format!("address add 2606:4700:44::{last}/64 dev outside nodad"));
            }
            ip("link set outside up");
        });
        // A guest has IPv6 where the host has a way for it.
        ip("-6 route add default via 2606:4700:44::10");
        outside
    }

    fn run<T: Send + 'static>(&self, errand: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, told) = channel();
        self.errands.send(Box::new(move || done.send(errand()).unwrap())).unwrap();
        told.recv().unwrap()
    }

    /// How many pings arrived out there, of IPv4 and of IPv6.
    pub fn pings(&self) -> (u64, u64) {
        self.run(|| {
            let count = |file: &str, number: fn(&str) -> Option<u64>| {
                let path = format!("/proc/thread-self/net/{file}");
                number(&std::fs::read_to_string(path).unwrap()).unwrap()
            };
            let v4 = count("snmp", |text| {
                let mut lines = text.lines().filter_map(|line| line.strip_prefix("Icmp: "));
                let at = lines.next()?.split(' ').position(|name| name == "InEchos")?;
                lines.next()?.split(' ').nth(at)?.parse().ok()
            });
            let v6 = count("snmp6", |text| {
                let line = text.lines().find(|line| line.starts_with("Icmp6InEchos"))?;
                line.split_whitespace().nth(1)?.parse().ok()
            });
            (v4, v6)
        })
    }

    /// A server out there that sends every datagram back, and tells of it.
    pub fn udp(&self, at: SocketAddr) -> Receiver<()> {
        let socket = self.run(move || UdpSocket::bind(at).unwrap());
        let (seen, told) = channel();
        std::thread::spawn(move || {
            let mut words = [0; 2048];
            while let Ok((count, from)) = socket.recv_from(&mut words) {
                let _ = socket.send_to(&words[..count], from);
                let _ = seen.send(());
            }
        });
        told
    }

    /// A socket out there; it may be served from anywhere.
    pub fn listen(&self, at: impl Into<SocketAddr>) -> TcpListener {
        let at = at.into();
        self.run(move || TcpListener::bind(at).unwrap())
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip (iproute2) is needed");
    assert!(status.success(), "ip {arguments}: {status}");
}
