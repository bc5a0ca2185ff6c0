//! What the driver makes of an `msb` that fails, hangs or dies: a script in its place.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
mod killed;
mod link_process;
mod outlet;
mod ports;
mod trouble;
mod versions;
mod wedged;
