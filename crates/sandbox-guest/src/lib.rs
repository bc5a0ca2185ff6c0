//! The program inside a QEMU guest. It is the initrd's only file, and it is two processes:
//!
//! ```text
//! kernel ──► init (process 1): /dev /proc /sys, reaps orphans, cuts the power when the agent ends
//!               └─► agent: virtio-serial port ──► yamux server ──► one session per stream
//!                                                                   Boot · Exec · Attach · Dial · SetClock · Sleep · Shutdown
//! ```
//!
//! Everything that touches the machine as a whole (mounting, killing all processes, the clock) sits behind
//! [`Machine`], so that the rest runs, and is tested, as an ordinary process on any host. A guest that another
//! init boots has the agent's part alone ([`stdio`]).

pub mod agent;
mod boot;
mod clock;
mod connections;
mod console;
mod dial;
mod exec;
mod framed;
mod guest;
mod host_name;
pub mod init;
mod kept;
mod link;
mod machine;
mod port;
mod session;
mod shutdown;
mod sleep;
mod ssh_agent;
pub mod stdio;
mod stream;
mod sys;
mod sysctls;
pub mod trust;

pub use guest::{Guest, Settings};
pub use link::{LinkEnd, link_config, serve};
pub use machine::{BootError, Machine, Steps};
