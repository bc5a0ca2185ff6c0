mod kernel;
mod tsc;

pub use kernel::{KernelError, check_kernel, wrapped_kernel};
pub use tsc::tsc_khz;
