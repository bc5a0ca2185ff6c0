//! `ports`: which ports of this machine lead into sandboxes, and opening and closing them while one runs.

use clap::{Args, Subcommand};
use serde_json::json;

use sandbox_model::PortForward;

use super::CommandResult;
use super::args::{AgentArg, port_parser};
use super::list::Format;
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone, status_cell};
use crate::settings;

/// Ports of this machine that lead into sandboxes
#[derive(Debug, Subcommand)]
pub enum PortsCommand {
    List(PortsListArgs),
    Add(PortsAddArgs),
    Remove(PortsRemoveArgs),
}

/// Open ports of this machine that lead into the running sandbox
///
/// They stay, also over a sleep, until they are removed or the sandbox boots again; the setting `ports` publishes a
/// port for good.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox ports add 8080:80                   http://127.0.0.1:8080 from now on
  agents-sandbox ports add 3000 0.0.0.0:5432:5432    several at once")]
pub struct PortsAddArgs {
    /// The ports, as with `run --publish`
    #[arg(value_name = "[BIND:]HOST:GUEST", value_parser = port_parser(), required = true)]
    pub ports: Vec<PortForward>,

    #[command(flatten)]
    pub agent: AgentArg,
}

/// Close published ports of the running sandbox
///
/// Connections that are open go on. A port of the setting `ports` comes back with the next run.
#[derive(Debug, Clone, Args)]
#[command(
    visible_alias = "rm",
    after_help = "\
Examples:
  agents-sandbox ports remove 8080                   whatever it leads to
  agents-sandbox ports remove 8080:80"
)]
pub struct PortsRemoveArgs {
    /// The ports, by their number on this machine or as they were published
    #[arg(value_name = "PORT", value_parser = super::values::published_port, required = true)]
    pub ports: Vec<String>,

    #[command(flatten)]
    pub agent: AgentArg,
}

/// List the published ports of all sandboxes
///
/// A port is open while its sandbox runs.
#[derive(Debug, Clone, Args)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  agents-sandbox ports list
  agents-sandbox run -p 8080:80                      publish one: http://127.0.0.1:8080
  agents-sandbox run -p 0.0.0.0:8080:80              for other machines too"
)]
pub struct PortsListArgs {
    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

pub fn run(app: &App, command: &PortsCommand) -> CommandResult {
    match command {
        PortsCommand::List(args) => list(app, args),
        PortsCommand::Add(args) => {
            let target = settings::target(app, &args.agent)?;
            sandbox_lifecycle::add_ports(&app.context()?, &target, &args.ports)?;
            for address in args.ports.iter().flat_map(PortForward::addresses) {
                app.console.info(&format!("open: {address}"));
            }
            Ok(Exit::SUCCESS)
        }
        PortsCommand::Remove(args) => remove(app, args),
    }
}

fn remove(app: &App, args: &PortsRemoveArgs) -> CommandResult {
    let target = settings::target(app, &args.agent)?;
    let context = app.context()?;
    let (name, published) = sandbox_lifecycle::published_ports(&context, &target)?;
    let mut close = Vec::new();
    for text in &args.ports {
        let port: PortForward = text.parse().map_err(|error| CommandError::usage(format!("{error}")))?;
        let by_number = !text.contains(':');
        let before = close.len();
        close.extend(published.iter().filter(|one| **one == port || by_number && one.host == port.host));
        if close.len() == before {
            return Err(CommandError::new(format!("{name} publishes no port {text}"))
                .hint("`agents-sandbox ports list` shows those there are"));
        }
    }
    sandbox_lifecycle::remove_ports(&context, &target, &close)?;
    for address in close.iter().flat_map(PortForward::addresses) {
        app.console.info(&format!("closed: {address}"));
    }
    Ok(Exit::SUCCESS)
}

fn list(app: &App, args: &PortsListArgs) -> CommandResult {
    let context = app.context()?;
    let sandboxes = context.runtime.list()?.sandboxes;
    if args.format.is_some() {
        let rows = sandboxes.iter().flat_map(|info| {
            info.spec.ports.iter().flat_map(|port| {
                port.addresses().into_iter().map(|address| {
                    json!({
                        "sandbox": info.spec.name.as_str(),
                        "status": info.status.to_string(),
                        "address": address.ip().to_string(),
                        "host-port": port.host,
                        "guest-port": port.guest,
                    })
                })
            })
        });
        app.out.json(&rows.collect::<Vec<_>>())?;
        return Ok(Exit::SUCCESS);
    }
    let columns = [("SANDBOX", true), ("STATUS", true), ("ADDRESS", true), ("GUEST PORT", true)];
    let mut table = Table::new(&columns.map(|(heading, whole)| Column { heading, whole }));
    let mut any = false;
    for info in &sandboxes {
        for port in &info.spec.ports {
            for address in port.addresses() {
                any = true;
                table.row([
                    (info.spec.name.to_string(), Tone::Plain),
                    status_cell(&info.status),
                    (address.to_string(), Tone::Plain),
                    (port.guest.to_string(), Tone::Plain),
                ]);
            }
        }
    }
    if any {
        app.out.line(&table.render())?;
    } else {
        app.console.info("no port is published; `agents-sandbox run -p HOST:GUEST` publishes one");
    }
    Ok(Exit::SUCCESS)
}
