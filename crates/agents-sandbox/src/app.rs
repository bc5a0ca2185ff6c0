use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use sandbox_config::{PREFIX, Settings};
use sandbox_lifecycle::{Context, Identity};
use sandbox_runtime::Runtime;
use sandbox_state::{Environment, Layout};

use crate::commands::args::{GlobalArgs, LogLevel};
use crate::error::CommandError;
use crate::report::{Console, Output};
use crate::wiring;

/// What every command works with. Nothing is read or started before a command asks for it.
#[derive(Debug)]
pub struct App {
    pub out: Output,
    pub console: Console,
    typed: GlobalArgs,
}

impl App {
    /// With what is wrong in the variables of the program's own words, which are as if they were not there.
    pub fn new(typed: &GlobalArgs) -> (Self, Option<CommandError>) {
        let (quiet, level) = (quiet(), level());
        let app = Self {
            out: Output::new(typed.quiet || matches!(quiet, Ok(true))),
            console: Console::new(
                typed.log_level.or(level.as_ref().ok().copied().flatten()).unwrap_or_default(),
            ),
            typed: typed.clone(),
        };
        (app, quiet.err().or(level.err()))
    }

    /// `--yes`, as the layer above all settings.
    pub fn typed_yes(&self) -> Option<bool> {
        self.typed.yes.then_some(true)
    }

    /// Where everything is on disk.
    pub fn layout() -> Result<Layout, CommandError> {
        Ok(Layout::new(&Environment::from_process())?)
    }

    /// This program's own file, for the background processes it starts.
    pub fn program() -> Result<PathBuf, CommandError> {
        std::env::current_exe()
            .map_err(|error| CommandError::new(format!("the program's own file cannot be found: {error}")))
    }

    /// Takes over what the settings say about this program's own words. What was typed is in them.
    pub fn adopt(&self, settings: &Settings) {
        if self.typed.log_level.is_none() {
            self.console.set_level(settings.log_level.value.into());
        }
        self.console.set_yes(settings.yes.value);
        self.out.set_quiet(self.typed.quiet || settings.quiet.value);
    }

    /// What the use cases work with that start nothing. Costs no look at any settings.
    pub fn context(&self) -> Result<Context<'_>, CommandError> {
        self.context_for(&Settings::default())
    }

    /// What the use cases work with.
    pub fn context_for(&self, settings: &Settings) -> Result<Context<'_>, CommandError> {
        let layout = Self::layout()?;
        let program = Self::program()?;
        let runtime = wiring::runtime(&layout, &program, settings, &self.console)?;
        Ok(self.context_over(layout, program, runtime))
    }

    fn context_over(&self, layout: Layout, program: PathBuf, runtime: Arc<dyn Runtime>) -> Context<'_> {
        Context {
            layout,
            runtime,
            images: wiring::images(),
            program,
            version: env!("CARGO_PKG_VERSION"),
            identity: Identity {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
            reporter: &self.console,
        }
    }
}

/// A variable of ours, for the commands that read no settings; those that do hear it as one layer of them.
fn wish(key: &str) -> Option<String> {
    std::env::var(format!("{PREFIX}{key}")).ok()
}

fn quiet() -> Result<bool, CommandError> {
    let text = wish("QUIET").unwrap_or_default();
    // As the settings read it.
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "false" | "no" | "off" | "0" => Ok(false),
        "true" | "yes" | "on" | "1" => Ok(true),
        _ => Err(CommandError::new(format!("{PREFIX}QUIET: `{text}` is not true or false"))),
    }
}

fn level() -> Result<Option<LogLevel>, CommandError> {
    let Some(text) = wish("LOG_LEVEL").filter(|text| !text.is_empty()) else { return Ok(None) };
    LogLevel::from_str(&text, true).map(Some).map_err(|_| {
        let problem = format!("`{text}` is not one of error, warning, info, verbose");
        CommandError::new(format!("{PREFIX}LOG_LEVEL: {problem}"))
    })
}
