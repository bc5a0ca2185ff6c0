use tracing_subscriber::EnvFilter;

/// Lines with times to stderr, which is the machine's log.
pub fn machine() {
    let filter = EnvFilter::new("info,yamux=warn");
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    // One that is set already stays.
    let _ = log.with_env_filter(filter).try_init();
}
