//! `runtime install`: have the private runtime there before it is needed.

use std::path::PathBuf;

use clap::Args;
use sandbox_config::Flags;
use sandbox_runtime_microsandbox::RuntimeSource;

use crate::app::App;
use crate::commands::CommandResult;
use crate::exit::Exit;
use crate::settings::Meant;
use crate::wiring;

/// Install or repair the private microsandbox runtime
///
/// The first run does it by itself; this is for doing it ahead, or from another place. Whatever the place,
/// the files must be the ones that this program knows. If microsandbox was tried here in vain, the next run
/// tries it again.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox runtime install                        from where the settings say, else with pip
  agents-sandbox runtime install --from ./msb.tar.gz    from a folder, a wheel, a zip or a tar.gz
  agents-sandbox runtime install --from https://mirror.example/msb-{version}-{arch}.tar.gz")]
pub struct InstallArgs {
    /// A folder, an archive, or the address of an archive, in which {version} and {arch} are replaced
    #[arg(long, value_name = "PATH|URL")]
    pub from: Option<String>,
}

pub fn run(app: &App, args: &InstallArgs) -> CommandResult {
    let settings = Meant::resolve(app, Flags::default())?.settings;
    let source = match &args.from {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
            RuntimeSource { url: Some(url.clone()), pip: false, ..RuntimeSource::default() }
        }
        Some(path) => RuntimeSource { path: Some(PathBuf::from(path)), ..RuntimeSource::default() },
        None => wiring::drivers::source(&settings),
    };
    let layout = App::layout()?;
    let installed = wiring::drivers::installed(&layout, &source, &app.console.notices())?;
    wiring::choice::Trial::forget(&layout)?;
    app.console.info(&format!("microsandbox {} is in {}", installed.version, layout.msb().display()));
    Ok(Exit::SUCCESS)
}
