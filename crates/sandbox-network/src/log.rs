//! The engine's log: warnings as they are, refusals as events.

use std::net::IpAddr;
use std::sync::Arc;

use microsandbox_network::policy::Action;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, filter::Targets};

use crate::compile::{Compiled, Decision};
use crate::event::{Event, EventKind, Verdict, now};
use crate::event_log::EventLog;
use crate::named::other_name;

/// Where the engine says what it refuses.
const TARGETS: [&str; 3] = [
    "microsandbox_network::engine::dns",
    "microsandbox_network::engine::tcp",
    "microsandbox_network::engine::tls",
];
/// The engine's words; cases of the bridge's tests fail when they change.
const DENIED: &str = "DNS query denied by network policy";
const REBOUND: &str = "DNS rebind protection: response contains private IP";
const OTHER_RESOLVER: &str = "DNS resolver denied by network policy";
const OTHER_NAME: [&str; 3] = [
    "TCP egress denied by domain policy",
    "TLS egress denied by domain policy",
    "TLS egress denied by default policy",
];

/// What of the engine's log goes to stderr where nobody said. What a guest can bring about at will, in its own words
/// and of any length, is told as events, which are limited.
const LEVEL: &str = "warn,microsandbox_network::engine::dns=error";

/// Sends this process's log to stderr. `level` is a filter of the `tracing` family.
/// In a process that already has a log, that one stays.
pub(crate) fn start(level: Option<&str>, policy: Arc<Compiled>, events: EventLog) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_filter(filter(level));
    let targets = Targets::new().with_targets(TARGETS.map(|target| (target, Level::DEBUG)));
    let refusals = Refusals { policy, events }.with_filter(targets);
    let _ = tracing_subscriber::registry().with(lines).with(refusals).try_init();
}

fn filter(level: Option<&str>) -> EnvFilter {
    EnvFilter::try_new(level.unwrap_or(LEVEL)).unwrap_or_else(|_| EnvFilter::new(LEVEL))
}

struct Refusals {
    policy: Arc<Compiled>,
    events: EventLog,
}

impl<S: Subscriber> Layer<S> for Refusals {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        if let Some(event) = self.refusal(words) {
            self.events.report(&event);
        }
    }
}

impl Refusals {
    fn refusal(&self, words: Words) -> Option<Event> {
        let event = |kind, name: Option<String>, rule: &str, opens| Event {
            at: now(),
            verdict: Verdict::Denied,
            kind,
            name,
            address: words.address.clone(),
            rule: rule.into(),
            opens,
        };
        let message = words.message.as_str();
        match message {
            DENIED => match self.policy.decide_name(&words.name) {
                Some(Decision { action: Action::Deny, rule, opens }) => {
                    Some(event(EventKind::Name, Some(words.name), &rule, opens))
                }
                _ => Some(event(EventKind::Name, Some(words.name), "by the policy", None)),
            },
            REBOUND => {
                let rule = "it resolves to an address that no entry without a port allows";
                Some(event(EventKind::Name, Some(words.name), rule, None))
            }
            OTHER_RESOLVER => {
                let rule = "the guest asked a resolver that the policy closes";
                Some(event(EventKind::Name, Some(words.name), rule, None))
            }
            _ if OTHER_NAME.contains(&message) => {
                // Without a name in it the connection was refused for its address.
                let name =
                    Some(words.name).filter(|name| !name.is_empty() && name.parse::<IpAddr>().is_err());
                let address = words.address.as_deref().and_then(|text| text.parse().ok());
                if name.is_none() && address.is_some_and(|address| self.events.has_named(address)) {
                    return None;
                }
                Some(other_name(&self.policy, EventKind::Tls, name, address))
            }
            _ => None,
        }
    }
}

#[derive(Default)]
struct Words {
    message: String,
    /// Of the host that was asked for.
    name: String,
    address: Option<String>,
}

impl Words {
    fn take(&mut self, field: &str, text: String) {
        match field {
            "message" => self.message = text,
            "domain" | "sni" => self.name = text,
            "host" if self.name.is_empty() => self.name = text,
            "dst" | "guest_dst" => self.address = Some(text),
            _ => {}
        }
    }
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.take(field.name(), format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_guests_own_words_are_no_lines_of_the_log() {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_filter(filter(None));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::warn!(target: "microsandbox_network::engine::dns::forwarder", "a query failed");
            tracing::warn!(target: "microsandbox_network::engine::network", "the engine stops");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(text.lines().count() == 1 && text.contains("the engine stops"), "{text}");
    }
}
