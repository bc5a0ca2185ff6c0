//! The real program in a sealed environment.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod environment;
mod tmux;

mod approval;
mod bad_input;
mod completion;
mod config;
mod config_agent;
mod doctor;
mod help;
mod kill_points;
mod lifecycle;
mod network;
mod notify;
mod older;
mod page;
mod prune;
mod questions;
mod serve;
mod sessions;
mod steps;
mod storage;
mod terminal;
mod upgrade;
mod version;
mod versions;
mod volumes;
