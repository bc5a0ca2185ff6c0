//! The QEMU runtime: real virtual machines on any Linux host, emulated where the hardware does not help.
//!
//! ```text
//! program ── driver ── spawns ──► machine process ──► QEMU ──► guest program (pid 1 of the VM)
//!               │                    │   │   └──► network bridge   (Ethernet frames)
//!               └─ machine.sock ─────┘   └──────► share server     (virtiofs: the checkout)
//! ```

mod accel;
mod boot;
mod client;
mod driver;
mod error;
mod files;
mod images;
mod initrd;
mod kernel;
pub mod machine;
mod mark;
mod memory;
mod options;
mod record;
mod room;
mod secrets;
mod tsc;
mod version;

use sandbox_image_store::full;

pub use accel::{KvmHint, kvm_hint};
pub use boot::find_qemu;
pub use driver::QemuRuntime;
pub use files::MachineFiles;
pub use initrd::guest_program;
pub use kernel::{KernelError, check_kernel, wrapped_kernel};
pub use memory::settle as settle_memory;
pub use options::{AccelChoice, KernelSource, QemuOptions};
pub use tsc::Measurement as TscMeasurement;
pub use version::{SLEEPS_SINCE, Version, version};
