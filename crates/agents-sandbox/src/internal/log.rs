//! What cannot be written is lost: a word about that would go to the same place, and end whoever says it.

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

/// For a person who wants details: how long each call of a driver's program took.
pub fn calls() {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false);
    let calls = EnvFilter::new("off,sandbox_runtime_microsandbox::call=debug");
    let _ = log.without_time().with_level(false).with_env_filter(calls).try_init();
}

fn lines(filter: &str) {
    let filter = EnvFilter::new(filter);
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false);
    // One that is set already stays.
    let _ = log.with_env_filter(filter).try_init();
}
