//! `/init` of every QEMU guest: init as process 1, the agent process otherwise. With the argument `stdio` it
//! carries a link over standard input and output instead, to the one that runs with `daemon`; with `trust` it makes a guest
//! that booted by itself trust the certificates on standard input.

use std::path::Path;

use sandbox_guest::{agent, init, stdio, trust};

fn main() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|mode| mode.to_str()) {
        Some(stdio::MODE) => stdio::run(arguments.get(1).map(Path::new)),
        Some(stdio::daemon::MODE) => stdio::daemon::run(),
        Some(trust::MODE) => trust::run(),
        _ if std::process::id() == 1 => init::run(),
        _ => agent::run(),
    }
}
