//! Real builds with buildah from a bootstrapped base, by root and by an ordinary user.
//!
//! The root file system is bootstrapped once per kind of user and kept in the target folder.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod archive;
mod custom_base;
mod managed_base;
mod user;
mod workshop;
