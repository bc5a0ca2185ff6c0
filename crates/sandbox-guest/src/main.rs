//! `/init` of every QEMU guest: init as process 1, the agent process otherwise.

fn main() {
    if std::process::id() == 1 { sandbox_guest::init::run() } else { sandbox_guest::agent::run() }
}
