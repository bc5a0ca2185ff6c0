//! Real builds from a bootstrapped base: with buildah by root and by an ordinary user, and with every engine.
//!
//! The root file system is bootstrapped once per kind of user and kept in the target folder.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod archive;
mod custom_base;
mod managed_base;
mod order;
mod second_checkout;
mod user;
mod workshop;
