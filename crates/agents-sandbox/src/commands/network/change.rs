//! `network allow` and `network deny`: write a rule into the settings.

use std::path::Path;

use clap::Args;
use sandbox_config::{EditError, Flags, Origin, Settings, Value, add_to_list};
use sandbox_lifecycle::{Context, Row};
use sandbox_model::{DESTINATION_FORMS, Destination, NetworkPolicy, SandboxName};

use crate::app::App;
use crate::commands::{CommandResult, neighbours};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings::{self, Meant};

/// Let sandboxes reach a destination
///
/// Writes it into your settings, or into the project's with --project. It counts from the next start of a
/// sandbox on.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox network allow registry.corp.example:443  one name, one port
  agents-sandbox network allow .corp.example            a name and everything below it
  agents-sandbox network allow host:11434               a service of this machine
  agents-sandbox network allow 10.0.0.0/8 --project     in the project's own settings")]
pub struct AllowArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Keep sandboxes from reaching a destination, whatever else allows it
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox network deny .ads.example       a name and everything below it
  agents-sandbox network deny '*:25'             a port, everywhere")]
pub struct DenyArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Debug, Clone, Args)]
pub struct ChangeArgs {
    /// `host`, an address, a CIDR, a name, `.suffix` or `*`, with `:port` where only one is meant
    #[arg(value_name = "DEST", required = true)]
    pub destinations: Vec<String>,

    /// In the project's settings
    #[arg(long, conflicts_with = "user")]
    pub project: bool,

    /// In your own settings (the default)
    #[arg(long)]
    pub user: bool,
}

/// So many sandboxes are named.
const NAMED: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Allow,
    Deny,
}

impl List {
    const fn key(self) -> &'static str {
        match self {
            Self::Allow => "egress-allow",
            Self::Deny => "egress-deny",
        }
    }

    const fn set(self, settings: &Settings) -> &Value<Vec<String>> {
        match self {
            Self::Allow => &settings.network_egress_allow,
            Self::Deny => &settings.network_egress_deny,
        }
    }

    const fn of(self, policy: &NetworkPolicy) -> &Vec<String> {
        match self {
            Self::Allow => &policy.egress_allow,
            Self::Deny => &policy.egress_deny,
        }
    }
}

pub fn allow(app: &App, args: &AllowArgs) -> CommandResult {
    change(app, &args.change, List::Allow)
}

pub fn deny(app: &App, args: &DenyArgs) -> CommandResult {
    change(app, &args.change, List::Deny)
}

fn change(app: &App, args: &ChangeArgs, list: List) -> CommandResult {
    for text in &args.destinations {
        check(text, list)?;
    }
    let meant = Meant::resolve(app, Flags::default())?;
    let own = App::layout()?.config;
    let folder = if args.project { &meant.project.config_dir } else { &own };
    refuse_without_effect(&list.set(&meant.settings).origin, folder, args.project)?;
    let mut changed = false;
    for text in &args.destinations {
        let edit =
            add_to_list(folder, "network", list.key(), text).map_err(|error| told(error, list, text))?;
        let path = edit.path.display();
        match edit.text {
            None => app.console.info(&format!("{path} has it already: network.{}: {text}", list.key())),
            Some(new) => {
                write(&edit.path, &new, args.project)?;
                changed = true;
                app.console.info(&format!("added to {path}: network.{}: {text}", list.key()));
            }
        }
        let denied = &meant.settings.network_egress_deny.value;
        if list == List::Allow && denied.contains(text) {
            app.console.warning(&format!("network.egress-deny has `{text}` too, and a denial wins"));
        }
    }
    if changed {
        app.console.info("it counts from the next start of a sandbox on");
    }
    // It is written: whoever waits for a runtime to name sandboxes knows that, and one that cannot is no failure of it.
    let Ok(context) = app.context() else { return Ok(Exit::SUCCESS) };
    let gains = |row: &Row| gains(&context, row, list, &args.destinations);
    let old = neighbours::stop_lines(&context, &meant.target(), !args.project, gains);
    if let Some(ends) = ends(&old) {
        let what = if changed {
            "for what runs or sleeps now, that is"
        } else {
            "what runs or sleeps without it has it"
        };
        app.console.info(&format!("{what} after {ends}"));
    }
    Ok(Exit::SUCCESS)
}

/// Whether it runs or sleeps without one of these, and its next start has it: a list of a stronger layer, such as its
/// project's file, replaces what was written.
fn gains(context: &Context<'_>, row: &Row, list: List, destinations: &[String]) -> bool {
    let Ok(settings) = settings::in_checkout(&row.checkout) else { return false };
    let info = row.name.parse::<SandboxName>().ok().and_then(|name| context.runtime.inspect(&name).ok()?);
    let Some(info) = info else { return false };
    let (next, now) = (&list.set(&settings).value, list.of(&info.spec.network));
    destinations.iter().any(|text| next.contains(text) && !now.contains(text))
}

/// What ends those that go on as they began.
fn ends(lines: &[String]) -> Option<String> {
    let named: Vec<String> = lines.iter().take(NAMED).map(|line| format!("`{line}`")).collect();
    let more = match lines.len() - named.len() {
        0 => String::new(),
        more => format!(", and so on for {more} more"),
    };
    (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
}

fn check(text: &str, list: List) -> Result<(), CommandError> {
    let refused = |why: String| CommandError::usage(format!("`{text}`: {why}")).hint(DESTINATION_FORMS);
    let destination: Destination =
        text.parse().map_err(|error: sandbox_model::InvalidDestination| refused(error.to_string()))?;
    if list == List::Allow && destination.is_guest_itself() {
        return Err(refused("this is the guest itself; the host's own services are `host`".into()));
    }
    Ok(())
}

/// A list of a stronger layer replaces the whole list of a weaker one.
fn refuse_without_effect(origin: &Origin, folder: &Path, project: bool) -> Result<(), CommandError> {
    let Origin::File { path, line } = origin else { return Ok(()) };
    if project || path.parent().is_none_or(|other| other == folder) {
        return Ok(());
    }
    let place = format!("{}:{line}", path.display());
    Err(CommandError::new(format!("it would have no effect here: {place} replaces your own list"))
        .hint("add it there; for the project's file that is the same command with --project"))
}

fn told(error: EditError, list: List, text: &str) -> CommandError {
    match error {
        EditError::Config(error) => error.into(),
        EditError::Unclear { .. } => CommandError::new(error.to_string())
            .hint(format!("write it yourself: `{}: [\"{text}\"]` inside `network:`", list.key())),
    }
}

/// In one step, with the rights that the file had. Whoever works in a sandbox can make the project's file a
/// link to any other: only your own may be one.
fn write(path: &Path, text: &str, project: bool) -> Result<(), CommandError> {
    let folder = path.parent().unwrap_or(path);
    let is_link = |path: &Path| fs_err::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if project && let Some(link) = [folder, path].into_iter().find(|path| is_link(path)) {
        return Err(CommandError::new(format!("{} is a link, so nothing is written", link.display())));
    }
    let path = if project { path.into() } else { path.canonicalize().unwrap_or_else(|_| path.into()) };
    let before = fs_err::metadata(&path).map(|found| found.permissions()).ok();
    fs_err::create_dir_all(folder)?;
    sandbox_state::write_private(&path, text.as_bytes())?;
    if let Some(permissions) = before {
        fs_err::set_permissions(&path, permissions)?;
    }
    Ok(())
}
