use tracing_subscriber::EnvFilter;

/// Lines with times to stderr, which is the machine's log.
pub fn machine() {
    lines("info,yamux=warn");
}

/// In that same log, what our own server of the checkout has to say. The libraries below it stay silent: a
/// guest could make them fill the disk.
pub fn share() {
    lines("off,sandbox_share=warn");
}

fn lines(filter: &str) {
    let filter = EnvFilter::new(filter);
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    // One that is set already stays.
    let _ = log.with_env_filter(filter).try_init();
}
