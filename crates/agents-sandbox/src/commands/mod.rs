//! What can be typed. These types are the only definition of the command line: help, completions, man
//! pages, `tree` and `docs/reference.md` are made from them.

mod approve;
pub mod args;
mod attend;
mod build;
mod completion;
mod config;
mod config_agent;
mod config_home;
mod doctor;
mod exec;
mod image;
mod inspect;
mod kill;
mod list;
mod logs;
mod man;
mod neighbours;
mod network;
mod ports;
mod prepare;
mod prune;
mod reference;
mod remove;
mod root;
mod run;
mod runtime;
mod sandbox;
mod serve;
mod session;
mod shell;
mod slip;
mod stop;
mod storage;
mod tree;
mod upgrade;
mod values;
mod version;
mod volume;
mod worktree;

use clap::{Parser, Subcommand};
use sandbox_lifecycle::prune::Kinds;

use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use args::GlobalArgs;
use run::RunArgs;

pub use root::{Typed, parse};

pub type CommandResult = Result<Exit, CommandError>;

/// The program's name, as it is typed.
pub const PROGRAM: &str = "agents-sandbox";

/// Run a coding agent in a virtual machine of its own
///
/// The project in the current folder gets its own virtual machine: its own kernel, its own disk, a home
/// that stays, and the project at /workspace. The agent works there and reaches nothing else of this
/// computer. Without a command, `run` is meant.
#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    version,
    subcommand_help_heading = "Commands",
    override_usage = "agents-sandbox [OPTIONS] [AGENT_ARG]... [-- AGENT_ARG...]\n       agents-sandbox <COMMAND>",
    after_help = root::EXAMPLES
)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,

    #[command(flatten)]
    pub run: RunArgs,

    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(RunArgs),
    Shell(shell::ShellArgs),
    Exec(exec::ExecArgs),
    List(list::ListArgs),
    Stop(stop::StopArgs),
    Kill(kill::KillArgs),
    Logs(logs::LogsArgs),
    Build(build::BuildArgs),
    Prune(prune::PruneArgs),
    Df(storage::DfArgs),
    #[command(subcommand)]
    Session(session::SessionCommand),
    #[command(subcommand)]
    Worktree(worktree::WorktreeCommand),
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    #[command(subcommand)]
    Image(image::ImageCommand),
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    #[command(subcommand)]
    Storage(storage::StorageCommand),
    #[command(subcommand)]
    Network(network::NetworkCommand),
    #[command(subcommand)]
    Ports(ports::PortsCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    #[command(subcommand)]
    Runtime(runtime::RuntimeCommand),
    Doctor(doctor::DoctorArgs),
    Upgrade(upgrade::UpgradeArgs),
    Tree(tree::TreeArgs),
    Completion(completion::CompletionArgs),
    Version(version::VersionArgs),
    Man(man::ManArgs),
    Reference(reference::ReferenceArgs),
}

impl Command {
    /// Whether it ends a sandbox or shows which there are and what became of one: nothing that is set wrong keeps its
    /// user from that.
    pub const fn ends_or_looks(&self) -> bool {
        match self {
            Self::List(_) | Self::Stop(_) | Self::Kill(_) | Self::Logs(_) => true,
            Self::Sandbox(command) => command.ends_or_looks(),
            _ => false,
        }
    }
}

/// Does what was typed.
pub fn dispatch(app: &App, command: &Command) -> CommandResult {
    match command {
        Command::Run(args) => run::run(app, args),
        Command::Shell(args) => shell::run(app, args),
        Command::Exec(args) => exec::run(app, args),
        Command::List(args) => list::run(app, args),
        Command::Stop(args) => stop::run(app, args),
        Command::Kill(args) => kill::run(app, args),
        Command::Logs(args) => logs::run(app, args),
        Command::Build(args) => build::run(app, args),
        Command::Prune(args) => prune::run(app, &args.options, Kinds::ALL),
        Command::Df(args) => storage::df(app, args),
        Command::Session(command) => session::run(app, command),
        Command::Worktree(command) => worktree::run(app, command),
        Command::Sandbox(command) => sandbox::run(app, command),
        Command::Image(command) => image::run(app, command),
        Command::Volume(command) => volume::run(app, command),
        Command::Storage(command) => storage::run(app, command),
        Command::Network(command) => network::run(app, command),
        Command::Ports(command) => ports::run(app, command),
        Command::Config(command) => config::run(app, command),
        Command::Runtime(command) => runtime::run(app, command),
        Command::Doctor(args) => doctor::run(app, args),
        Command::Upgrade(args) => upgrade::run(app, args),
        Command::Tree(args) => tree::run(app, args),
        Command::Completion(args) => completion::run(app, args),
        Command::Version(args) => version::run(app, args),
        Command::Man(args) => man::run(app, args),
        Command::Reference(args) => reference::run(app, args),
    }
}
