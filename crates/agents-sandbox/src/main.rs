//! agents-sandbox: one command gives the project in the current folder its own virtual machine, and runs a
//! coding agent in it.

mod agent_version;
mod agents_with;
mod app;
mod approval;
mod commands;
mod doctor;
mod error;
mod exit;
mod internal;
mod limits;
mod notify;
mod program;
mod project;
mod reach;
mod report;
mod secrets;
mod settings;
mod ssh;
mod terminal;
mod upgrade;
mod wiring;

fn main() -> std::process::ExitCode {
    program::main(std::env::args_os().collect()).into()
}
