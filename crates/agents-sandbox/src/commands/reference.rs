//! `reference`: this command line as a page of documentation. `docs/reference.md` is its output.

use std::fmt::Write as _;

use clap::{Arg, Args, Command, CommandFactory};

use super::{Cli, CommandResult, PROGRAM};
use crate::app::App;
use crate::exit::Exit;

/// Print the reference of all commands, as Markdown
#[derive(Debug, Clone, Args)]
#[command(hide = true)]
pub struct ReferenceArgs {}

pub fn run(app: &App, _args: &ReferenceArgs) -> CommandResult {
    app.out.bytes(render().as_bytes())?;
    Ok(Exit::SUCCESS)
}

fn render() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text = String::from(
        "# Command reference\n\n\
         Made from the program's own definition by `agents-sandbox reference > docs/reference.md`; a test\n\
         checks that it is current.\n",
    );
    section(&root, PROGRAM, &mut text);
    text
}

fn section(command: &Command, path: &str, text: &mut String) {
    let _ = write!(text, "\n## {path}\n\n");
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let _ = writeln!(text, "{about}\n");
    }
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        let _ = writeln!(text, "Short: {}\n", aliases.join(", "));
    }
    let usage = command.clone().render_usage().to_string();
    let _ =
        writeln!(text, "```text\n{}\n```", usage.trim_start_matches("Usage: ").replace("\n       ", "\n"));
    let shown = |argument: &&Arg| {
        let everywhere = argument.is_global_set() && path != PROGRAM;
        !argument.is_hide_set() && !everywhere && !matches!(argument.get_id().as_str(), "help" | "version")
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if !arguments.is_empty() {
        text.push_str("\n| Argument | Meaning |\n|---|---|\n");
    }
    for argument in arguments {
        let _ = writeln!(text, "| `{}` | {} |", cell(&name(argument)), cell(&meaning(argument)));
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let examples = examples.trim_start_matches("Examples:\n");
        let plain: Vec<&str> = examples.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
        let _ = writeln!(text, "\n```sh\n{}\n```", plain.join("\n"));
    }
    for child in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        section(child, &format!("{path} {}", child.get_name()), text);
    }
}

fn name(argument: &Arg) -> String {
    let rendered = argument.to_string();
    match argument.get_short() {
        Some(short) => format!("-{short}, {rendered}"),
        None => rendered,
    }
}

fn meaning(argument: &Arg) -> String {
    let mut meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values = argument.get_possible_values();
    let names: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if argument.get_action().takes_values() && !names.is_empty() && !argument.is_hide_possible_values_set() {
        let _ = write!(meaning, " (one of {})", names.join(", "));
    }
    meaning
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
