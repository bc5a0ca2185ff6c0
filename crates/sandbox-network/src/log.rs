//! The engine's log: warnings as they are, denied names as denials.

use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, filter::Targets};

use crate::compile::Compiled;
use crate::denial::DenialLog;

const ENGINE_DNS: &str = "microsandbox_network::engine::dns";
/// The engine's words; a case of the bridge's tests fails when they change.
const DENIED: &str = "DNS query denied by network policy";
const REBOUND: &str = "DNS rebind protection: response contains private IP";
const OTHER_RESOLVER: &str = "DNS resolver denied by network policy";

/// Sends this process's log to stderr. `level` is a filter of the `tracing` family; the default is `warn`.
/// In a process that already has a log, that one stays.
pub(crate) fn start(level: Option<&str>, policy: Arc<Compiled>, denials: DenialLog) {
    let filter = EnvFilter::try_new(level.unwrap_or("warn")).unwrap_or_else(|_| EnvFilter::new("warn"));
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_filter(filter);
    let names = DeniedNames { policy, denials }
        .with_filter(Targets::new().with_target(ENGINE_DNS, tracing::Level::DEBUG));
    let _ = tracing_subscriber::registry().with(lines).with(names).try_init();
}

struct DeniedNames {
    policy: Arc<Compiled>,
    denials: DenialLog,
}

impl<S: Subscriber> Layer<S> for DeniedNames {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let reason = match words.message.as_str() {
            DENIED => self.policy.why_unresolved(&words.domain).unwrap_or_else(|| "by the policy".into()),
            REBOUND => "it resolves to an address that no entry without a port allows".into(),
            OTHER_RESOLVER => "the guest asked a resolver that the policy closes".into(),
            _ => return,
        };
        self.denials.report(&format!("name {}", words.domain), &reason);
    }
}

#[derive(Default)]
struct Words {
    message: String,
    domain: String,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "domain" {
            self.domain = value.into();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "domain" => self.domain = format!("{value:?}"),
            _ => {}
        }
    }
}
