//! `tree`: the whole command line on one page.

use std::fmt::Write as _;

use clap::{Arg, Args, Command, CommandFactory};
use unicode_width::UnicodeWidthStr;

use super::{Cli, CommandResult};
use crate::app::App;
use crate::exit::Exit;

/// Print all commands and flags as a tree
#[derive(Debug, Clone, Args)]
pub struct TreeArgs {}

pub fn run(app: &App, _args: &TreeArgs) -> CommandResult {
    app.out.line(render(&Cli::command()).trim_end())?;
    Ok(Exit::SUCCESS)
}

/// One line: what is drawn and named on the left, what it does on the right.
struct Line {
    left: String,
    right: String,
}

/// Flags first, then commands, then words.
fn render(root: &Command) -> String {
    let mut lines = vec![Line { left: root.get_name().into(), right: about(root) }];
    children(root, root, "", &mut lines);
    let width = lines.iter().map(|line| line.left.width()).max().unwrap_or(0);
    let mut text = String::new();
    for Line { left, right } in lines {
        let padding = " ".repeat(width - left.width());
        let _ = writeln!(text, "{}", format!("{left}{padding}  {right}").trim_end());
    }
    text
}

fn children(root: &Command, command: &Command, indent: &str, lines: &mut Vec<Line>) {
    let top = std::ptr::eq(root, command);
    let shown = |argument: &&Arg| !argument.is_hide_set();
    let flags = command.get_arguments().filter(shown).filter(|a| !a.is_positional());
    let mut entries: Vec<(String, String, Option<&Command>)> =
        flags.map(|flag| (flag_name(flag), help(flag), None)).collect();
    for child in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let mut text = about(child);
        let twins = if top { twins(root, child) } else { Vec::new() };
        let aliases: Vec<&str> = child.get_visible_aliases().collect();
        if !aliases.is_empty() {
            let _ = write!(text, " (alias: {})", aliases.join(", "));
        }
        if !twins.is_empty() {
            let _ = write!(text, " (also: {})", twins.join(", "));
        }
        entries.push((child.get_name().into(), text, Some(child)));
    }
    let words = command.get_arguments().filter(shown).filter(|a| a.is_positional());
    entries.extend(words.map(|word| (word_name(word), help(word), None)));
    let last = entries.len().saturating_sub(1);
    for (index, (name, text, child)) in entries.into_iter().enumerate() {
        let (branch, below) = if index == last { ("└── ", "    ") } else { ("├── ", "│   ") };
        lines.push(Line { left: format!("{indent}{branch}{name}"), right: text });
        if let Some(child) = child {
            children(root, child, &format!("{indent}{below}"), lines);
        }
    }
}

/// Where else the same command is mounted: `sandbox run` for `run`.
fn twins(root: &Command, command: &Command) -> Vec<String> {
    let groups = root
        .get_subcommands()
        .filter(|group| group.has_subcommands() && group.get_name() != command.get_name());
    groups
        .filter(|group| {
            group
                .get_subcommands()
                .any(|twin| twin.get_name() == command.get_name() && about(twin) == about(command))
        })
        .map(|group| format!("{} {}", group.get_name(), command.get_name()))
        .collect()
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn help(argument: &Arg) -> String {
    argument.get_help().map(|help| help.to_string().replace('\n', " ")).unwrap_or_default()
}

fn flag_name(flag: &Arg) -> String {
    let mut name = flag.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    if let Some(long) = flag.get_long() {
        let _ = write!(name, "--{long}");
    }
    if flag.get_action().takes_values() {
        let values: Vec<String> =
            flag.get_value_names().unwrap_or_default().iter().map(|value| format!("<{value}>")).collect();
        let _ = if flag.is_require_equals_set() {
            write!(name, "[={}]", values.join(" "))
        } else {
            write!(name, " {}", values.join(" "))
        };
    }
    name
}

fn word_name(word: &Arg) -> String {
    let name = word.get_value_names().and_then(<[_]>::first).map_or_else(String::new, ToString::to_string);
    let many = if word.get_num_args().is_some_and(|count| count.max_values() > 1) { "..." } else { "" };
    if word.is_required_set() { format!("<{name}>{many}") } else { format!("[{name}]{many}") }
}
