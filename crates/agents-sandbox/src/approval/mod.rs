//! What a project's own files widen takes effect only once the user has approved exactly that.
//!
//! Whoever works in a sandbox can write the whole checkout, and so the next run's settings. What was approved
//! is kept outside the checkout, by hash.
//!
//! ```text
//!                     ┌ all approved ──────────────────────────────► go on, silently
//!  list of widenings ─┤            ┌ `yes` of the user ── remember ─► go on, one line
//!                     └ some open ─┤ a terminal: show, ask ┬ yes ─── remember ─► go on
//!                                  │                       └ no ───► error
//!                                  └ neither ──────────────────────► error that names each
//! ```

mod borrowed;
mod entry;
mod former;
mod marker;
mod renamed;
mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sandbox_config::{EnvFiles, Origin, SecretFiles, Value};
use sandbox_image::ProjectSource;
use sandbox_lifecycle::Project;
use sandbox_state::Layout;

use crate::app::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::report::plain;
use crate::secrets;
use crate::settings::Meant;
use crate::terminal::{can_ask, confirm};
use borrowed::{Borrowed, borrowed};
pub use entry::Entry;
pub use former::names as former_names;
use store::Store;

const APPROVE: &str =
    "`agents-sandbox config approve` shows it and asks; with --yes it approves without asking";

const ONE_PROJECT: &str = "`cd` to the folder of one project, or make one, and run it there";

/// What the settings are read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Something is started or built.
    Use,
    /// Something is only said about them.
    Look,
}

/// The review took place: without it no request is made of the settings.
#[derive(Debug)]
pub struct Reviewed {
    env: BTreeMap<String, String>,
    secrets: SecretFiles,
    source: Arc<ProjectSource>,
}

impl Reviewed {
    /// What goes into the image, as it was read for the review.
    pub fn source(&self) -> Arc<ProjectSource> {
        Arc::clone(&self.source)
    }

    /// The definitions of secrets, as they were read for the review.
    pub const fn secrets(&self) -> &SecretFiles {
        &self.secrets
    }

    /// The variables for the guest, from the very bytes that were reviewed.
    pub const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }
}

/// Everything that the project's files widen, and which of it is approved.
#[derive(Debug)]
pub struct Review {
    entries: Vec<Entry>,
    env: EnvFiles,
    secrets: SecretFiles,
    source: ProjectSource,
    store: Store,
    layout: Layout,
    project: Project,
    former: Vec<PathBuf>,
    borrowed: Borrowed,
}

impl Review {
    /// Reads the project's files once; what they say later was not reviewed.
    pub fn of(meant: &Meant) -> Result<Self, CommandError> {
        let layout = App::layout()?;
        let env = sandbox_config::env_files(&layout.config, Some(&meant.project.config_dir))?;
        let secrets = secrets::files(&layout, Some(&meant.project.config_dir))?;
        secrets::check_names(&secrets, &env.merged())?;
        let source = ProjectSource::read(&meant.project.config_dir).map_err(CommandError::from)?;
        let project = meant.project.clone();
        let former = former::former(&layout, &project);
        let borrowed = borrowed(&layout, &project)?;
        let mut entries = entry::exposed(&project, &layout);
        entries.extend(entry::borrowed(&project, &borrowed));
        entries.extend(entry::entries(&project, &former, meant.layer.as_ref(), &env, &source));
        entries.extend(entry::secrets(&project, &secrets));
        let store = Store::open(&layout, &project)?;
        Ok(Self { entries, env, secrets, source, store, layout, project, former, borrowed })
    }

    /// Each entry, and whether it is approved.
    pub fn entries(&self) -> impl Iterator<Item = (&Entry, bool)> {
        self.entries.iter().map(|entry| (entry, self.store.has(entry)))
    }

    fn open(&self) -> Vec<&Entry> {
        self.entries().filter(|(_, approved)| !approved).map(|(entry, _)| entry).collect()
    }

    fn remember(&self, app: &App) -> Result<(), CommandError> {
        if let Some(before) = former::remember(&self.layout, &self.project, &self.former)? {
            renamed::tell(app, &self.layout, &self.project, &before);
        }
        Ok(())
    }

    /// Settings that are to be approved themselves do not approve.
    fn is_borrowed(&self, origin: &Origin) -> bool {
        let dir = self.borrowed.settings.as_deref();
        matches!((origin, dir), (Origin::File { path, .. }, Some(dir)) if path.starts_with(dir))
    }

    /// What is the matter, for whoever is asked or refused.
    fn head(&self, open: &[Entry]) -> String {
        let Some(exposed) = open.iter().find(|entry| entry.is_exposed()) else {
            return "this project's own files would widen what its sandbox may do".into();
        };
        let root = &self.project.root;
        let home = std::env::var_os("HOME").and_then(|home| PathBuf::from(home).canonicalize().ok());
        let what = match home {
            Some(home) if home == *root => "is your home folder",
            Some(home) if home.starts_with(root) => "has your home folder in it",
            _ => {
                return format!(
                    "{} has {} in it, and the sandbox would get them",
                    root.display(),
                    exposed.place()
                );
            }
        };
        format!(
            "{} {what}: the sandbox would get all of it, with your keys, your other projects and this program's own \
             settings",
            root.display()
        )
    }

    fn names(&self) -> String {
        self.open().iter().map(|entry| entry.key()).collect::<Vec<_>>().join(", ")
    }

    /// Sees to it that everything is approved, or fails. Returns how many entries had not been before.
    pub fn settle(&mut self, app: &App, yes: &Value<bool>) -> Result<usize, CommandError> {
        self.store.forget_all_but(&self.entries)?;
        let open: Vec<Entry> = self.open().into_iter().cloned().collect();
        if open.is_empty() {
            self.remember(app)?;
            return Ok(0);
        }
        if yes.value && !self.is_borrowed(&yes.origin) {
            app.console.info(&format!("approved, as you said yes to everything: {}", self.names()));
        } else if can_ask() {
            ask(app, &self.head(&open), &open)?;
        } else {
            return Err(refusal(&self.head(&open), &open));
        }
        self.store.approve(&open)?;
        self.remember(app)?;
        if !self.store.lasts() {
            app.console
                .warning("the approval holds for this time only: the sandbox can write what we remember");
        }
        Ok(open.len())
    }
}

/// Lets a command go on, or not, with what the project's files say.
pub fn review(app: &App, meant: &Meant, purpose: Purpose) -> Result<Reviewed, CommandError> {
    let mut review = Review::of(meant)?;
    match purpose {
        Purpose::Use => {
            review.settle(app, &meant.settings.yes)?;
            for remark in secrets::remarks(&review.secrets) {
                app.console.warning(&remark);
            }
        }
        Purpose::Look => warn(app, &review),
    }
    Ok(Reviewed { env: review.env.merged(), secrets: review.secrets, source: Arc::new(review.source) })
}

/// Says which of the values that are shown are not approved. A file that cannot be read is no reason to
/// show nothing.
pub fn mark(app: &App, meant: &Meant) {
    match Review::of(meant) {
        Ok(review) => warn(app, &review),
        Err(error) => app.console.warning(&error.message),
    }
}

fn warn(app: &App, review: &Review) {
    if !review.open().is_empty() {
        let names = review.names();
        app.console.warning(&format!(
            "set by the project and not approved: {names}; `agents-sandbox config approve` asks"
        ));
    }
}

fn ask(app: &App, head: &str, open: &[Entry]) -> Result<(), CommandError> {
    let lines = app.console.lines();
    // Other heads begin with a path.
    lines.write(&format!(
        "{}:",
        plain(&head.strip_prefix("this").map_or_else(|| head.into(), |rest| format!("This{rest}")))
    ));
    for entry in open {
        lines.write(&format!("  {}", entry.line()));
    }
    let question = match open {
        [_] => "Approve this?".to_owned(),
        open => format!("Approve these {}?", open.len()),
    };
    match confirm(&question)? {
        Some(true) => Ok(()),
        Some(false) => Err(hinted(CommandError::new("not approved, so nothing was started"), open)),
        None => Err(CommandError { exit: Exit::from_signal(2), ..CommandError::new("interrupted") }),
    }
}

fn refusal(head: &str, open: &[Entry]) -> CommandError {
    let lines: Vec<String> = open.iter().map(Entry::line_for_logs).collect();
    let error = CommandError::new(format!("{head}, and that is not approved")).excerpt(&lines.join("\n"));
    hinted(error, open)
}

fn hinted(error: CommandError, open: &[Entry]) -> CommandError {
    if open.iter().any(Entry::is_exposed) {
        error.hint(ONE_PROJECT).hint(APPROVE)
    } else {
        error.hint(APPROVE)
    }
}
