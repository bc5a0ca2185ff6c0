//! The real program in a sealed environment.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod environment;
mod tmux;

mod approval;
mod asked;
mod bad_input;
mod boots;
mod completion;
mod config;
mod config_agent;
mod damage;
mod damage_machines;
mod demo;
mod doctor;
mod help;
mod kept;
mod kill_points;
mod leftovers;
mod lifecycle;
mod mounts;
mod network;
mod network_log;
mod newer;
mod notify;
mod odd_folders;
mod older;
mod outlet;
mod page;
mod proxy;
mod prune;
mod questions;
mod renamed;
mod saved_memory;
mod secret_memory;
mod secrets;
mod serve;
mod server;
mod sessions;
mod sleep_steps;
mod stand_in_qemu;
mod steps;
mod storage;
mod terminal;
mod trouble;
mod upgrade;
mod upgrade_look;
mod version;
mod versions;
mod volumes;
mod wedged;
mod which_agent;
mod worktree;
