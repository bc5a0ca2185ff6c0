//! `logs`: what a sandbox, its machine and its keeper wrote.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::time::Duration;

use clap::Args;
use sandbox_lifecycle::Log;
use sandbox_model::SandboxName;

use super::CommandResult;
use super::args::{AgentArg, LogLevel};
use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::plain_lines;
use crate::{project, settings};

const LOGS: [&str; 4] = ["console", "machine", "keeper", "ssh-agent"];
const PAUSE: Duration = Duration::from_millis(200);
/// What every machine writes, and nobody can do anything about: its clock has no interrupt of its own and needs none,
/// and the link to the guest begins anew when that wakes.
const HARMLESS: [&str; 3] = [
    "genirq: Flags mismatch irq 8.",
    "rtc_cmos rtc_cmos: probe with driver rtc_cmos failed with error -16",
    "INFO the guest link ended: decode error: decode error: unknown version: 255",
];

/// Show the logs of a sandbox
///
/// A sandbox has several: `console` is what the kernel and the first program in it wrote, `machine` is what
/// makes the virtual machine, `keeper` is what watches over it and stops it, `ssh-agent` is what the sandbox
/// did with your ssh keys. Lines that every machine writes and that mean nothing are shown with --log-level verbose
/// only.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox logs                        all logs of the project's sandbox
  agents-sandbox logs console --follow       what its console says now
  agents-sandbox logs NAME keeper            why another sandbox was stopped")]
pub struct LogsArgs {
    /// Which log (console, machine, keeper, ssh-agent), and whose [default: all of the project's]
    #[arg(value_name = "NAME|LOG", num_args = 0..=2)]
    pub which: Vec<String>,

    /// Go on until Ctrl-C
    #[arg(long)]
    pub follow: bool,

    /// Only so many lines from the end of each; 0 is all
    #[arg(long, value_name = "COUNT", value_parser = super::values::count, allow_hyphen_values = true, default_value_t = 0, hide_default_value = true)]
    pub tail: usize,

    #[command(flatten)]
    pub agent: AgentArg,
}

pub fn run(app: &App, args: &LogsArgs) -> CommandResult {
    let context = app.context()?;
    let Wanted { name, log } = wanted(&args.which)?;
    let target = match (&name, args.agent.agent) {
        (Some(name), Some(agent)) => {
            return Err(CommandError::usage(format!("{name} and --agent {agent} each name a sandbox"))
                .hint("leave one of them out"));
        }
        (Some(name), None) => project::target_of(&context, name)?,
        (None, _) => settings::target(app, &args.agent)?,
    };
    let mut logs: Vec<Tail> = sandbox_lifecycle::logs(&context, &target)?
        .into_iter()
        .filter(|found| log.is_none_or(|log| found.name == log))
        .map(|log| Tail::new(log, app.console.shows(LogLevel::Verbose)))
        .collect();
    if logs.is_empty() {
        let name = target.name();
        let error = match log {
            Some(log) => CommandError::new(format!("{name} has no log `{log}`"))
                .hint(format!("`agents-sandbox logs {name}` shows those it has")),
            None => CommandError::new(format!("{name} has no logs yet")).hint("a run of it begins them"),
        };
        return Err(error);
    }
    let headings = logs.len() > 1;
    let mut last = None;
    for (index, tail) in logs.iter_mut().enumerate() {
        if let Some(text) = tail.first(args.tail)? {
            show(app, tail, &text, headings && last.replace(index) != Some(index))?;
        }
    }
    if last.is_none() && !headings && logs.iter().all(Tail::is_missing) {
        app.console.info("there is nothing in it yet");
    }
    if !args.follow {
        return Ok(Exit::SUCCESS);
    }
    loop {
        std::thread::sleep(PAUSE);
        for (index, tail) in logs.iter_mut().enumerate() {
            if let Some(text) = tail.more()? {
                show(app, tail, &text, headings && last.replace(index) != Some(index))?;
            }
        }
    }
}

fn show(app: &App, tail: &Tail, text: &str, heading: bool) -> Result<(), CommandError> {
    if heading {
        app.out.line(&format!("==> {} ({})", tail.log.name, tail.log.path.display()))?;
    }
    app.out.line(&plain_lines(text))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    name: Option<SandboxName>,
    log: Option<&'a str>,
}

/// Which sandbox and which log; one word may be either.
fn wanted(words: &[String]) -> Result<Wanted<'_>, CommandError> {
    let mut wanted = Wanted { name: None, log: None };
    for word in words {
        if LOGS.contains(&word.as_str()) && wanted.log.is_none() {
            wanted.log = Some(word);
        } else if wanted.name.is_none() {
            wanted.name = Some(word.parse().map_err(|error| CommandError::usage(format!("{error}")))?);
        } else {
            return Err(CommandError::usage(format!("`{word}` is no log"))
                .hint(format!("the logs are {}", LOGS.join(", "))));
        }
    }
    Ok(wanted)
}

/// One log, and how far it has been shown.
struct Tail {
    log: Log,
    shown: u64,
    /// The beginning of a line whose end has not been written yet.
    partial: Vec<u8>,
    /// With the lines that mean nothing.
    all: bool,
}

impl Tail {
    const fn new(log: Log, all: bool) -> Self {
        Self { log, shown: 0, partial: Vec::new(), all }
    }

    fn wanted(&self, line: &str) -> bool {
        self.all || !HARMLESS.iter().any(|harmless| line.contains(harmless))
    }

    /// The lines that mean something; `None` where there are none.
    fn meaningful<'a>(&self, lines: impl Iterator<Item = &'a str>) -> Option<String> {
        let lines: Vec<&str> = lines.filter(|line| self.wanted(line)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn is_missing(&self) -> bool {
        !self.log.path.exists()
    }

    /// What is there now, a last half line included; only so many lines of it unless `lines` is 0.
    fn first(&mut self, lines: usize) -> Result<Option<String>, CommandError> {
        let Some(bytes) = self.read()? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let count = text.lines().filter(|line| self.wanted(line)).count();
        let skip = if lines == 0 { 0 } else { count.saturating_sub(lines) };
        let last = text.lines().filter(|line| self.wanted(line)).skip(skip);
        Ok(self.meaningful(last).filter(|text| !text.is_empty()))
    }

    /// Whole lines that came since.
    fn more(&mut self) -> Result<Option<String>, CommandError> {
        let Some(bytes) = self.read()? else { return Ok(None) };
        self.partial.extend(bytes);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Ok(None) };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        Ok(self.meaningful(String::from_utf8_lossy(&lines[..end]).lines()))
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>, CommandError> {
        let mut file = match fs_err::File::open(&self.log.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.len() < self.shown {
            // Begun anew by another boot.
            self.shown = 0;
            self.partial.clear();
        }
        file.seek(SeekFrom::Start(self.shown))?;
        let mut bytes = Vec::new();
        self.shown += file.read_to_end(&mut bytes)? as u64;
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_log_or_a_sandbox() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let two = words(&["a-opencode", "keeper"]);
        let both = Wanted { name: Some("a-opencode".parse().unwrap()), log: Some("keeper") };
        assert_eq!(wanted(&two).unwrap(), both);
        assert_eq!(wanted(&words(&["machine"])).unwrap().log, Some("machine"));
        assert_eq!(wanted(&[]).unwrap(), Wanted { name: None, log: None });
        assert!(wanted(&words(&["a", "b"])).is_err());
        assert!(wanted(&words(&["../a"])).is_err());
    }

    #[test]
    fn a_growing_log_is_told_in_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console.log");
        let mut tail = Tail::new(Log { name: "console", path: path.clone() }, false);
        assert_eq!(tail.first(0).unwrap(), None);
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        assert_eq!(tail.first(2).unwrap(), Some("two\nthr".into()));
        std::fs::write(&path, "one\ntwo\nthree\nfour\nfi").unwrap();
        assert_eq!(tail.more().unwrap(), Some("ee\nfour".into()));
        assert_eq!(tail.more().unwrap(), None);
        std::fs::write(&path, "anew\n").unwrap();
        assert_eq!(tail.more().unwrap(), Some("anew".into()));
        let noise = "[    1.2] genirq: Flags mismatch irq 8. 00200000 (rtc0) vs. 00200080 (virtio4)";
        std::fs::write(&path, format!("anew\n{noise}\n")).unwrap();
        assert_eq!(tail.more().unwrap(), None, "it says nothing");
        std::fs::write(&path, format!("anew\n{noise}\nlast\n{noise}\n")).unwrap();
        assert_eq!(tail.more().unwrap(), Some("last".into()));
        let first = |all| Tail::new(Log { name: "console", path: path.clone() }, all).first(2).unwrap();
        assert_eq!(first(false), Some("anew\nlast".into()));
        assert_eq!(first(true), Some(format!("last\n{noise}")));
    }
}
