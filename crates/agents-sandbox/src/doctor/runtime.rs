use sandbox_config::Settings;
use sandbox_runtime_qemu::kvm_hint;
use sandbox_state::Layout;

use super::Finding;
use crate::wiring::choice::{Decision, Driver, Host, Trial, Why, decide};

const CHECK: &str = "runtime";

/// What makes new sandboxes, as far as it can be told without a boot.
pub fn check(layout: &Layout, settings: &Settings) -> Finding {
    let trial = Trial::read(layout, &Host::here());
    match decide(settings.runtime.value, &kvm_hint(), trial.outcome.as_ref()) {
        Decision::TryMicrosandbox => Finding::good(CHECK, "microsandbox, if a first boot works; else QEMU"),
        Decision::Take(Driver::Microsandbox, Why::Proven) => {
            Finding::good(CHECK, "microsandbox: a first boot has worked")
        }
        Decision::Take(Driver::Microsandbox, _) => match kvm_hint() {
            sandbox_runtime_qemu::KvmHint::Plausible => Finding::good(CHECK, "microsandbox, as it is set"),
            sandbox_runtime_qemu::KvmHint::No(why) => Finding::missing(
                CHECK,
                format!("microsandbox is set, and cannot run: {why}"),
                "set `runtime` to auto or qemu",
            ),
        },
        Decision::Take(Driver::Qemu, Why::Not(why)) => Finding::good(CHECK, format!("QEMU: {why}")),
        Decision::Take(Driver::Qemu, _) => Finding::good(CHECK, "QEMU, as it is set"),
    }
}
