//! The `worktree` group: git worktrees inside the sandbox.

use clap::{Args, Subcommand};
use sandbox_lifecycle::{Context, Daemon, LifecycleError, Up};
use serde_json::{Value, json};

use super::args::{AgentArg, PrepareArgs};
use super::list::Format;
use super::{CommandResult, prepare};
use crate::app::App;
use crate::approval::{self, Purpose};
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};
use crate::settings::Meant;

/// Everything that works on git worktrees inside the sandbox
///
/// `run --worktree NAME` makes one. It is in the sandbox's home, on a branch `opencode/NAME` of the project's
/// repository, and the checkout stays as it is.
#[derive(Debug, Subcommand)]
pub enum WorktreeCommand {
    List(ListArgs),
    Remove(RemoveArgs),
}

/// List the worktrees in the sandbox; starts nothing
#[derive(Debug, Clone, Args)]
#[command(visible_alias = "ls")]
pub struct ListArgs {
    #[command(flatten)]
    pub agent: AgentArg,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Remove a worktree and its branch
///
/// One with changes that are not committed, or with commits that no other branch, remote or tag has, stays.
#[derive(Debug, Clone, Args)]
#[command(
    visible_alias = "rm",
    after_help = "\
Examples:
  agents-sandbox worktree remove fix-login
  agents-sandbox worktree remove --force fix-login   also what is nowhere else"
)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub agent: AgentArg,

    /// Also one with changes or commits that would be lost
    #[arg(long, short = 'f')]
    pub force: bool,

    /// Its name
    #[arg(value_parser = super::values::worktree)]
    pub name: String,
}

pub fn run(app: &App, command: &WorktreeCommand) -> CommandResult {
    match command {
        WorktreeCommand::List(args) => list(app, args),
        WorktreeCommand::Remove(args) => remove(app, args),
    }
}

/// The server in the sandbox is asked, which is started for that.
fn with_server(
    app: &App,
    agent: &AgentArg,
    act: impl FnOnce(&Context<'_>, &Up, &Daemon) -> CommandResult,
) -> CommandResult {
    let args = PrepareArgs { agent: agent.clone(), ..PrepareArgs::default() };
    let meant = Meant::resolve(app, args.flags())?;
    let reviewed = approval::review(app, &meant, Purpose::Use)?;
    let mut request = meant.up_request(app, &args, "worktree", reviewed)?;
    if sandbox_lifecycle::profile(request.agent)?.daemon.is_none() {
        return Err(LifecycleError::NoServer { agent: request.agent }.into());
    }
    let context = app.context_for(&meant.settings)?;
    let _interruptible = prepare::interruptible(&context, request.target())?;
    prepare::tell_what_is_written_anyway(app, &context, &request)?;
    let up = prepare::up(&context, &mut request)?;
    prepare::provision(&context, &request, &up, prepare::streams())?;
    match sandbox_lifecycle::ensure_daemon(&context, &request, &up)? {
        Some(daemon) => act(&context, &up, &daemon),
        None => Err(LifecycleError::NoServer { agent: request.agent }.into()),
    }
}

/// A server that answers knows best. Nothing is started to ask one: git keeps the same list in the checkout.
fn list(app: &App, args: &ListArgs) -> CommandResult {
    let meant = Meant::resolve_whatever_files_say(app, &args.agent.flags())?;
    let context = app.context()?;
    let worktrees = match sandbox_lifecycle::list_worktrees(&context, &meant.target())? {
        Some(worktrees) => worktrees,
        None => {
            sandbox_lifecycle::worktrees_of_checkout(sandbox_checkout::linked_worktrees(&meant.project.root)?)
        }
    };
    if args.format.is_some() {
        let rows: Vec<Value> = worktrees
            .iter()
            .map(|worktree| json!({ "name": worktree.name, "directory": worktree.directory }))
            .collect();
        app.out.json(&rows)?;
        return Ok(Exit::SUCCESS);
    }
    if worktrees.is_empty() {
        app.console.info("no worktrees; `agents-sandbox run --worktree NAME` makes one");
        return Ok(Exit::SUCCESS);
    }
    let columns = [("NAME", true), ("IN THE SANDBOX", false)];
    let mut table = Table::new(&columns.map(|(heading, whole)| Column { heading, whole }));
    for worktree in worktrees {
        table.row([worktree.name, worktree.directory].map(|word| (word, Tone::Plain)));
    }
    app.out.line(&table.render())?;
    Ok(Exit::SUCCESS)
}

fn remove(app: &App, args: &RemoveArgs) -> CommandResult {
    with_server(app, &args.agent, |context, up, daemon| {
        let gone = sandbox_lifecycle::drop_worktree(context, up, daemon, &args.name, args.force)?;
        app.console.info(&format!("removed the worktree {}", gone.name));
        Ok(Exit::SUCCESS)
    })
}
