//! `ports list`: which ports of this machine lead into sandboxes.

use clap::{Args, Subcommand};
use serde_json::json;

use super::CommandResult;
use super::list::Format;
use crate::app::App;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone, status_cell};

/// Ports of this machine that lead into sandboxes
#[derive(Debug, Subcommand)]
pub enum PortsCommand {
    List(PortsListArgs),
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
    let PortsCommand::List(args) = command;
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
