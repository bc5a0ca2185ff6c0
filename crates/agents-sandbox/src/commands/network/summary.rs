//! What a command in a sandbox ends with: what the network refused for the first time.

use std::collections::BTreeSet;

use sandbox_lifecycle::{Context, UpRequest};
use sandbox_state::{read_record, write_record};

use super::{Blocked, Events, blocked};
use crate::app::App;
use crate::commands::args::AgentArg;
use crate::report::plain;

/// So many are named.
const NAMED: usize = 5;
/// A guest can try to reach whatever it likes; after these, only `network log` tells of more.
const REMEMBERED: usize = 1000;

/// Says what was refused, each destination once: in the `first` run with the commands that open it, later in a line.
/// A log that cannot be read is no reason to fail: the agent's work is done.
pub fn summary(app: &App, context: &Context<'_>, request: &UpRequest, agent: &AgentArg, first: bool) {
    let target = request.target();
    let Ok(name) = sandbox_lifecycle::sandbox_name(context, &target) else { return };
    let Ok(Some(path)) = context.runtime.network_log(&name) else { return };
    let Ok(events) = Events::new(path).more() else { return };
    let record = context.layout.sandbox_state(&target.checkout, target.agent).network_told();
    let told: Option<BTreeSet<String>> = read_record(&record).ok().flatten();
    let told = told.filter(|_| !first).unwrap_or_default();
    if told.len() >= REMEMBERED {
        return;
    }
    let all = blocked(&events);
    let new: Vec<&Blocked> = all.iter().filter(|blocked| !told.contains(&blocked.destination)).collect();
    let log = agent.after("agents-sandbox network log");
    for line in if first { lines(&new, &log) } else { line(&new, &log).into_iter().collect() } {
        app.console.info(&line);
    }
    // What another sandbox of this name was told is over with it.
    if !new.is_empty() || (first && record.exists()) {
        let new = new.iter().map(|blocked| blocked.destination.clone());
        let told: BTreeSet<String> = told.into_iter().chain(new).take(REMEMBERED).collect();
        if let Err(error) = write_record(&record, &told) {
            app.console.verbose(&format!("what was told of the network is not remembered: {error}"));
        }
    }
}

fn lines(blocked: &[&Blocked], log: &str) -> Vec<String> {
    if blocked.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![match blocked.len() {
        1 => "the network refused one thing in this first run:".to_string(),
        count => format!("the network refused {count} things in this first run:"),
    }];
    for Blocked { subject, count, opens, .. } in blocked.iter().take(NAMED) {
        let times = if *count > 1 { format!(", {count} times") } else { String::new() };
        lines.push(match opens {
            Some(entry) => format!("  {subject}{times}: `agents-sandbox network allow {entry}` opens it"),
            None => format!("  {subject}{times}"),
        });
    }
    lines.push(format!("`{log}` shows all of it"));
    lines
}

fn line(blocked: &[&Blocked], log: &str) -> Option<String> {
    let mut named: Vec<String> = blocked.iter().map(|blocked| plain(&blocked.destination)).collect();
    // One name has several addresses.
    named.dedup();
    let more = match named.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.truncate(NAMED);
    let named = named.join(", ");
    (!named.is_empty())
        .then(|| format!("the network refused {named}{more} for the first time; `{log}` says why"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(destination: &str, count: usize) -> Blocked {
        Blocked {
            destination: destination.into(),
            subject: destination.into(),
            count,
            opens: Some(format!("{destination}:443")),
        }
    }

    #[test]
    fn a_few_are_named() {
        assert_eq!(lines(&[], "log"), [] as [String; 0]);
        let one = refused("a.example", 2);
        let told = lines(&[&one], "log");
        assert_eq!(told[1], "  a.example, 2 times: `agents-sandbox network allow a.example:443` opens it");
        assert_eq!(lines(&[&one; 9], "log").len(), 2 + NAMED);
    }

    #[test]
    fn later_they_are_one_line() {
        assert_eq!(line(&[], "log"), None);
        let many: Vec<Blocked> = (0..7).map(|number| refused(&format!("{number}.example"), 1)).collect();
        let two = line(&[&many[0], &many[0], &many[1]], "log").unwrap();
        assert_eq!(two, "the network refused 0.example, 1.example for the first time; `log` says why");
        let all = line(&many.iter().collect::<Vec<_>>(), "log").unwrap();
        assert!(all.contains("4.example and 2 more for") && !all.contains("5.example"), "{all}");
        let hostile = line(&[&refused("a\u{1b}[2J\nb", 1)], "log").unwrap();
        assert!(!hostile.contains(['\u{1b}', '\n']), "{hostile}");
    }
}
