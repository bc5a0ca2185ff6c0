use std::time::{Duration, Instant};

use crate::environment::TestEnvironment;

#[test]
fn both_spellings_say_the_same() {
    let environment = TestEnvironment::new();
    let version = format!("agents-sandbox {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(environment.run(&["version"]).success(), version);
    assert_eq!(environment.run(&["--version"]).success(), version);
    assert_eq!(environment.run(&["version", "--quiet"]).success(), "");
}

#[test]
fn the_version_reads_and_writes_nothing_and_is_quick() {
    let environment = TestEnvironment::new();
    // Settings that would be refused, and a home that is not there.
    environment.write("home/config/agents-sandbox/config.yaml", "][");
    let best = (0..10)
        .map(|_| {
            let begun = Instant::now();
            environment.finish(environment.command(&["--version"]).env_remove("HOME")).success();
            begun.elapsed()
        })
        .min()
        .unwrap();
    // The aim is 10 ms; a machine that builds beside the tests gets some slack.
    assert!(best < Duration::from_millis(50), "{best:?}");
    assert!(!environment.path("home/state").exists());
    assert!(!environment.path("runtime").exists());
}
