use std::path::PathBuf;
use std::sync::Arc;

use sandbox_config::{Settings, from_variables};
use sandbox_lifecycle::{Context, Identity};
use sandbox_runtime::Runtime;
use sandbox_state::{Environment, Layout};

use crate::commands::args::{GlobalArgs, LogLevel};
use crate::error::CommandError;
use crate::internal::log;
use crate::report::{Console, Output};
use crate::{settings, wiring};

/// Settings of the program itself, which no sandbox has to do with.
pub const OWN: [&str; 2] = ["quiet", "log-level"];

/// What every command works with. Nothing is read or started before a command asks for it.
#[derive(Debug)]
pub struct App {
    pub out: Output,
    pub console: Console,
    typed: GlobalArgs,
}

impl App {
    /// With what is wrong in the variables about the program itself. They are heard here for the commands that
    /// read no settings; those that do hear them as one layer of them.
    pub fn new(typed: &GlobalArgs) -> (Self, Vec<CommandError>) {
        let (heard, wrong) = from_variables(&settings::variables(), &OWN);
        let level = typed.log_level.unwrap_or_else(|| heard.log_level.value.into());
        let app = Self {
            out: Output::new(typed.quiet || heard.quiet.value),
            console: Console::new(level),
            typed: typed.clone(),
        };
        if level == LogLevel::Verbose {
            log::calls();
        }
        (app, wrong.into_iter().map(CommandError::from).collect())
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
