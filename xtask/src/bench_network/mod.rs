//! `cargo xtask bench network`: the bridge beside QEMU's own NAT, in one guest at one time, on the release build.
//!
//! QEMU gets a second card for it, by a script of its name that comes first in `PATH`. Both cards reach the same
//! server on this host's loopback, and each measurement takes them in turn.

mod server;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bench_boot::{Bench, Outcome, text};
use crate::bench_wake::shown;
use server::{Seen, Server};

const CLIENT: &str = include_str!("guest.pl");
/// In the guest.
const CLIENT_AT: &str = "/tmp/bench-network.pl";
#[cfg(target_arch = "x86_64")]
const QEMU: &str = "qemu-system-x86_64";
#[cfg(target_arch = "aarch64")]
const QEMU: &str = "qemu-system-aarch64";
/// The bridge is to have this part of what the plain NAT has.
const AIM: f64 = 0.7;
const TRANSFER: u64 = 100 << 20;
const ECHOES: u64 = 1500;
const CONNECTIONS: u64 = 300;
const POST: u64 = 2 << 30;
const AT_ONCE: usize = 500;

/// One of the two ways out of the guest: its name, and under which address it has this host's loopback.
struct Way {
    name: &'static str,
    address: String,
}

/// What is measured both ways.
struct Measure {
    name: &'static str,
    unit: &'static str,
    /// The less the better: the ratio is turned over.
    less: bool,
    of: fn(&Network<'_>, &Way) -> Outcome<f64>,
}

const MEASURES: [Measure; 4] = [
    Measure { name: "download", unit: "MB/s", less: false, of: |network, way| network.moved(way, "down") },
    Measure { name: "upload", unit: "MB/s", less: false, of: |network, way| network.moved(way, "up") },
    Measure {
        name: "connections, one by one",
        unit: "1/s",
        less: false,
        of: |network, way| network.rate(way),
    },
    Measure { name: "round trip, median", unit: "ms", less: true, of: |network, way| network.echo(way) },
];

/// Measures everything `runs` times and prints a table of medians.
pub fn run(runs: usize) -> Outcome {
    let bench = Bench::new("1G")?;
    let outcome = measure(&bench, runs);
    bench.ended(outcome)
}

fn measure(bench: &Bench, runs: usize) -> Outcome {
    let network = Network::start(bench)?;
    let ways = network.ways()?;
    let mut short = Vec::new();
    println!("{:<26} {:>10} {:>10} {:>7}  medians of {runs}", "", ways[0].name, ways[1].name, "ratio");
    for measure in &MEASURES {
        let mut values = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            for (way, values) in ways.iter().zip(&mut values) {
                bench.interrupt.check()?;
                values.push((measure.of)(&network, way)?);
            }
        }
        let [bridge, plain] = values.map(|mut values| {
            values.sort_by(f64::total_cmp);
            values[runs / 2]
        });
        let ratio = if measure.less { plain / bridge } else { bridge / plain };
        let named = format!("{}, {}", measure.name, measure.unit);
        println!("{named:<26} {bridge:>10.2} {plain:>10.2} {ratio:>7.2}");
        if ratio < AIM {
            short.push(measure.name);
        }
    }
    println!("the ratio is to be {AIM} or more; a round trip's is turned over");
    network.survives(&ways[0])?;
    if short.is_empty() { Ok(()) } else { Err(format!("under the aim: {}", short.join(", "))) }
}

struct Network<'a> {
    bench: &'a Bench,
    server: Server,
    path: std::ffi::OsString,
}

impl<'a> Network<'a> {
    /// A running sandbox with two cards.
    fn start(bench: &'a Bench) -> Outcome<Self> {
        let server = Server::start()?;
        let own = bench.scratch().join("bin");
        let real = find_qemu()?;
        // A name among the entries: with one, the bridge looks at what connections say first.
        let settings =
            format!("network:\n  egress-allow: [\"host:{}\", \"registry.example.com:443\"]\n", server.port);
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *-netdev*) set -- \"$@\" -netdev user,id=plain \
             -device virtio-net-device,netdev=plain,mac=02:6d:73:00:00:03 ;; esac\nexec {} \"$@\"\n",
            real.display()
        );
        let config = bench.scratch().join("config/agents-sandbox");
        for dir in [&own, &config] {
            fs::create_dir_all(dir).map_err(|error| text(&error))?;
        }
        fs::write(config.join("config.yaml"), settings).map_err(|error| text(&error))?;
        fs::write(own.join(QEMU), script).map_err(|error| text(&error))?;
        fs::set_permissions(own.join(QEMU), fs::Permissions::from_mode(0o755))
            .map_err(|error| text(&error))?;
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([own].into_iter().chain(std::env::split_paths(&paths)))
            .map_err(|error| text(&error))?;
        let network = Self { bench, server, path };
        println!("making the sandbox (the first time builds its image) …");
        network.guest("true", &[])?;
        fs::write(bench.project().join("client.pl"), CLIENT).map_err(|error| text(&error))?;
        network.guest(&format!("cp /workspace/client.pl {CLIENT_AT}"), &[])?;
        Ok(network)
    }

    fn guest(&self, script: &str, options: &[&str]) -> Outcome<String> {
        let words = [&["exec"], options, &["--", "sh", "-c", script]].concat();
        let mut command = self.bench.command(&words);
        command.env("PATH", &self.path);
        shown(command)
    }

    /// The second card is the guest's to set up: the NAT hands out 10.0.2.15, and is 10.0.2.2 itself.
    fn ways(&self) -> Outcome<[Way; 2]> {
        let script = "set -e
            for card in /sys/class/net/*; do
                grep -q 02:6d:73:00:00:03 $card/address && plain=${card##*/}
            done
            ip address add 10.0.2.15/24 dev $plain
            ip link set $plain up
            ip route show default | cut -d' ' -f3";
        let gateway = self.guest(script, &["--root"])?.trim().to_string();
        let bridge = Way { name: "bridge", address: gateway };
        Ok([bridge, Way { name: "plain NAT", address: "10.0.2.2".into() }])
    }

    fn does(&self, way: &Way, what: &str, count: u64) -> Outcome {
        let (address, port) = (&way.address, self.server.port);
        self.guest(&format!("perl {CLIENT_AT} {address} {port} {what} {count}"), &[]).map(drop)
    }

    fn moved(&self, way: &Way, what: &str) -> Outcome<f64> {
        self.does(way, what, TRANSFER)?;
        match self.server.next()? {
            Seen::Moved(TRANSFER, took) => Ok(per_second(TRANSFER, took) / 1e6),
            _ => Err(format!("{what} by {}: not everything came", way.name)),
        }
    }

    fn echo(&self, way: &Way) -> Outcome<f64> {
        self.does(way, "echo", ECHOES)?;
        let Seen::Echoes(mut times) = self.server.next()? else {
            return Err("another answer than an echo".into());
        };
        times.sort();
        Ok(times[times.len() / 2].as_secs_f64() * 1e3)
    }

    fn rate(&self, way: &Way) -> Outcome<f64> {
        self.does(way, "each", CONNECTIONS)?;
        let (first, last) = self.ones(CONNECTIONS)?;
        Ok(per_second(CONNECTIONS, last - first))
    }

    /// When the first of so many requests came, and when the last was over.
    fn ones(&self, count: u64) -> Outcome<(Instant, Instant)> {
        let mut span: Option<(Instant, Instant)> = None;
        for _ in 0..count {
            let Seen::One(came, over) = self.server.next()? else { return Err("another request".into()) };
            let (first, last) = span.unwrap_or((came, over));
            span = Some((first.min(came), last.max(over)));
        }
        span.ok_or_else(|| "no request".into())
    }

    /// What is too large or too much for a bridge that is careless.
    fn survives(&self, way: &Way) -> Outcome {
        let url = format!("http://host.agents-sandbox.internal:{}/", self.server.port);
        let script = format!(
            "truncate -s {POST} /tmp/big && curl -sS -m 230 -X POST -H Expect: -T /tmp/big {url}; s=$?; rm /tmp/big; exit $s"
        );
        let said = self.guest(&script, &[])?;
        let Seen::Moved(POST, took) = self.server.next()? else {
            return Err(format!("of the POST of {POST} bytes the server got {said}"));
        };
        println!("POST of 2 GiB by the bridge: all there, {:.1} MB/s", per_second(POST, took) / 1e6);
        self.server.most_open();
        let count = AT_ONCE as u64;
        self.does(way, "held", count)?;
        let (first, last) = self.ones(count)?;
        let most = self.server.most_open();
        println!(
            "{AT_ONCE} connections by the bridge: {most} open at once, all answered within {:.1} s",
            (last - first).as_secs_f64()
        );
        if most < AT_ONCE { Err(format!("only {most} connections were open at once")) } else { Ok(()) }
    }
}

#[allow(clippy::cast_precision_loss, reason = "far below what a float counts exactly")]
fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn find_qemu() -> Outcome<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&paths).map(|dir| dir.join(QEMU));
    found.find(|path| path.is_file()).ok_or_else(|| format!("{QEMU} is not in PATH"))
}
