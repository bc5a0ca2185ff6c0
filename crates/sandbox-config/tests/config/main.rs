//! Real files in folders of their own; nothing of the machine's own settings is read.

// Not code of the program: a test that cannot go on should stop there.
#![allow(clippy::unwrap_used)]

mod documented;
mod env_file;
mod errors;
mod formats;
mod keys;
mod lab;
mod layers;
mod secrets;
mod widening;
