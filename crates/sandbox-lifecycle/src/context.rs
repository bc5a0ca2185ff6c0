use std::path::PathBuf;
use std::sync::Arc;

use sandbox_model::SandboxName;
use sandbox_runtime::Runtime;
use sandbox_state::Layout;

use crate::{Decisions, Images, KeepAll};

/// What every use case needs. Made once by the program.
pub struct Context<'a> {
    /// Where everything is on disk.
    pub layout: Layout,
    /// What makes machines: one, or one that sends each name to the runtime that has it.
    pub runtime: Arc<dyn Runtime>,
    /// Where runner images come from: [`crate::EngineImages`], or what a test puts in its place.
    pub images: Arc<dyn Images>,
    /// This program's own file, for the background processes it starts.
    pub program: PathBuf,
    /// This program's version, as clients and keepers tell it to each other.
    pub version: &'static str,
    /// For whom files are made and images are built.
    pub identity: Identity,
    /// Whom to tell, and whom to ask.
    pub reporter: &'a dyn Reporter,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("layout", &self.layout)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Who called the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The effective user: whose files are written, and whom the guest's `dev` stands for.
    pub uid: u32,
    /// That user's effective group.
    pub gid: u32,
}

/// Where progress and remarks go. The program shows them; the library only tells them.
///
/// Calls come from the thread that called the use case, except [`Step`] methods of steps it handed out.
pub trait Reporter: Send + Sync {
    /// A step begins, for example `building the image`. Dropping the step without
    /// [`Step::finish`] means that it failed. Steps may nest.
    fn begin(&self, title: &str) -> Box<dyn Step + '_>;

    /// Something the user should read, in every mode but quiet ones.
    fn info(&self, text: &str);

    /// Something that may not be what the user expects; the use case goes on.
    fn warning(&self, text: &str);

    /// Changed settings wait until `sandbox` ends: `text` says which and why. Whoever knows of commands adds
    /// the one that makes them count.
    fn postponed(&self, _sandbox: &SandboxName, text: &str) {
        self.warning(text);
    }

    /// For those who ask for details.
    fn verbose(&self, text: &str);

    /// Asked a few times per second during long work; `true` ends it in good order.
    fn cancelled(&self) -> bool {
        false
    }

    /// Whom to ask in the middle of a use case. Without a terminal there is nobody.
    fn decisions(&self) -> &dyn Decisions {
        &KeepAll
    }
}

/// A step under way.
pub trait Step: Send {
    /// Bytes (or units) done, and the total where it is known.
    fn progress(&mut self, done: u64, total: Option<u64>);

    /// What it is doing just now, one short line that replaces the one before.
    fn detail(&mut self, text: &str);

    /// The step is done; `summary` says what came of it, where there is more to say than that.
    fn finish(self: Box<Self>, summary: Option<&str>);
}

/// A reporter that tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn begin(&self, _title: &str) -> Box<dyn Step + '_> {
        Box::new(Self)
    }

    fn info(&self, _text: &str) {}

    fn warning(&self, _text: &str) {}

    fn verbose(&self, _text: &str) {}
}

impl Step for Silent {
    fn progress(&mut self, _done: u64, _total: Option<u64>) {}

    fn detail(&mut self, _text: &str) {}

    fn finish(self: Box<Self>, _summary: Option<&str>) {}
}
