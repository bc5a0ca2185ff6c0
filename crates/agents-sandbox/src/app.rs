use std::path::PathBuf;
use std::sync::Arc;

use sandbox_lifecycle::{Context, EngineImages, Identity};
use sandbox_runtime::Runtime;
use sandbox_state::{Environment, Layout};

use crate::commands::args::GlobalArgs;
use crate::error::CommandError;
use crate::report::{Console, Output};
use crate::wiring;

/// What every command works with. Nothing is read or started before a command asks for it.
#[derive(Debug)]
pub struct App {
    pub out: Output,
    pub console: Console,
}

impl App {
    pub fn new(typed: &GlobalArgs) -> Self {
        Self {
            out: Output { quiet: typed.quiet },
            console: Console::new(typed.log_level.unwrap_or_default()),
        }
    }

    /// Where everything is on disk.
    pub fn layout() -> Result<Layout, CommandError> {
        Ok(Layout::new(&Environment::from_process())?)
    }

    /// What the use cases work with, over the runtime that this computer can use.
    pub fn context(&self) -> Result<Context<'_>, CommandError> {
        let layout = Self::layout()?;
        let program = program()?;
        let runtime = wiring::runtime(&layout, &program)?;
        Ok(self.context_over(layout, program, runtime))
    }

    fn context_over(&self, layout: Layout, program: PathBuf, runtime: Arc<dyn Runtime>) -> Context<'_> {
        Context {
            layout,
            runtime,
            images: Arc::new(EngineImages),
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

/// This program's own file, for the background processes it starts.
fn program() -> Result<PathBuf, CommandError> {
    std::env::current_exe()
        .map_err(|error| CommandError::new(format!("the program's own file cannot be found: {error}")))
}
