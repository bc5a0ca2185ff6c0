use sandbox_runtime_qemu::{KvmHint, kvm_hint};

use super::Finding;

const CHECK: &str = "virtualization";

pub fn check() -> Finding {
    match kvm_hint() {
        KvmHint::Plausible => Finding::good(CHECK, "KVM is offered; a boot proves it"),
        KvmHint::No(why) => Finding::note(
            CHECK,
            format!("none: {why}"),
            "sandboxes work emulated, and slower; where the hardware can, let your user open /dev/kvm",
        ),
    }
}
