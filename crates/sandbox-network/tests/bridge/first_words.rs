//! What a guest says as soon as it is connected.

use std::net::IpAddr;

use sandbox_model::NetworkProfile;

use crate::process::{Bridge, serve_if_asked};
use crate::{config, servers};

const TRIES: usize = 20;

/// Without a further turn of the engine's they wait there for 10 ms, until it acknowledges them. A machine that has much
/// to do may take as long for an answer, more often than not.
#[test]
fn words_that_come_with_the_end_of_the_handshake_do_not_wait() {
    serve_if_asked();
    let (port, _told) = servers::tcp("heard ");
    let entry = format!("host:{port}");
    let entries: [&[&str]; 2] = [&[&entry], &[&entry, "registry.example.com:443"]];
    for allow in entries {
        let (bridge, mut guest) = Bridge::start(
            "first_words::words_that_come_with_the_end_of_the_handshake_do_not_wait",
            &config(NetworkProfile::None, allow, &[]),
        );
        let IpAddr::V4(host) = guest.gateway else { panic!("{}", guest.gateway) };
        // Nothing that could be the beginning of a request over HTTP.
        let at_once =
            (0..TRIES).filter(|_| guest.is_answered_at_once(host.octets(), port, b"\x01words\n")).count();
        assert!(at_once > TRIES / 4, "with {allow:?}, {at_once} of {TRIES} are answered at once");
        drop(bridge.end(guest));
    }
}
