//! What the first command in a sandbox ends with, `run`, `shell` or `exec`.

use sandbox_lifecycle::Context;
use sandbox_model::SandboxName;

use super::{Events, blocked};
use crate::app::App;

/// So many are named.
const NAMED: usize = 5;

/// Says what was refused, with the commands that open it. A log that cannot be read is no reason to fail: the
/// agent's work is done.
pub fn summary(app: &App, context: &Context<'_>, name: &SandboxName) {
    let Ok(Some(path)) = context.runtime.network_log(name) else { return };
    let Ok(events) = Events::new(path).more() else { return };
    for line in lines(&blocked(&events)) {
        app.console.info(&line);
    }
}

fn lines(blocked: &[(String, usize, Option<String>)]) -> Vec<String> {
    if blocked.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![match blocked.len() {
        1 => "the network refused one thing in this first run:".to_string(),
        count => format!("the network refused {count} things in this first run:"),
    }];
    for (subject, count, opens) in blocked.iter().take(NAMED) {
        let times = if *count > 1 { format!(", {count} times") } else { String::new() };
        lines.push(match opens {
            Some(entry) => format!("  {subject}{times}: `agents-sandbox network allow {entry}` opens it"),
            None => format!("  {subject}{times}"),
        });
    }
    lines.push("`agents-sandbox network log` shows all of it".into());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_named() {
        assert_eq!(lines(&[]), [] as [String; 0]);
        let one = ("a.example".to_string(), 2, Some("a.example:443".to_string()));
        let told = lines(std::slice::from_ref(&one));
        assert_eq!(told[1], "  a.example, 2 times: `agents-sandbox network allow a.example:443` opens it");
        assert_eq!(lines(&vec![one; 9]).len(), 2 + NAMED);
    }
}
