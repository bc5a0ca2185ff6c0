//! The one place that names drivers.

#[cfg(debug_assertions)]
mod archive;
pub mod choice;
pub mod drivers;
#[cfg(debug_assertions)]
mod fake;
mod routed;
#[cfg(debug_assertions)]
mod stand_in;

use std::path::Path;
use std::sync::Arc;

use sandbox_config::Settings;
use sandbox_image::ClientSettings;
use sandbox_lifecycle::{EngineImages, Images};
use sandbox_model::SandboxName;
use sandbox_runtime::Runtime;
use sandbox_runtime_qemu::kvm_hint;
use sandbox_state::Layout;

use crate::app::App;
use crate::commands::args::LogLevel;
use crate::doctor::{self, Finding};
use crate::error::CommandError;
use crate::report::Console;
use choice::{Driver, Host};
use routed::Routed;

/// The runtime of one sandbox, for a process that watches it: it starts nothing, and nobody sees its remarks.
pub fn background_runtime(name: &SandboxName) -> Result<Arc<dyn Runtime>, CommandError> {
    #[cfg(debug_assertions)]
    if let Some(runtime) = fake::runtime()? {
        return Ok(runtime);
    }
    let console = Console::new(LogLevel::Error);
    let all = routed(&App::layout()?, &App::program()?, &Settings::default(), &console);
    // It watches one and the same sandbox for as long as that runs.
    let holder = all.holder(name)?.map(Arc::clone);
    Ok(holder.unwrap_or_else(|| Arc::new(all)))
}

/// The runtimes that this computer can use, as one. Makes nothing and starts nothing.
pub fn runtime(
    layout: &Layout,
    program: &Path,
    settings: &Settings,
    console: &Console,
) -> Result<Arc<dyn Runtime>, CommandError> {
    #[cfg(debug_assertions)]
    if let Some(runtime) = fake::runtime()? {
        return Ok(runtime);
    }
    Ok(Arc::new(routed(layout, program, settings, console)))
}

fn routed(layout: &Layout, program: &Path, settings: &Settings, console: &Console) -> Routed {
    let drivers: Vec<Arc<dyn Runtime>> = vec![
        Arc::new(drivers::qemu(layout, program, settings, console)),
        Arc::new(drivers::microsandbox(layout, program, settings, console)),
    ];
    let (layout, setting) = (layout.clone(), settings.runtime.value);
    let source = drivers::source(settings);
    let (lines, told) = (console.notices(), console.notices());
    let choose = move || {
        let first_boot = || drivers::first_boot(&layout, &source, &lines);
        let chosen = choice::choose(&layout, &Host::here(), setting, &kvm_hint(), &first_boot, &|text| {
            lines.write(text);
        })?;
        Ok(match chosen {
            Driver::Qemu => 0,
            Driver::Microsandbox => 1,
        })
    };
    Routed::new(drivers, Box::new(choose), Box::new(move |text| told.write(text)))
}

/// What this computer has of what its runtime needs.
pub fn examine(layout: &Layout, settings: &Settings) -> Vec<Finding> {
    #[cfg(debug_assertions)]
    if fake::is_wanted() {
        return fake::findings();
    }
    doctor::examine(layout, settings, None)
}

/// Writes what is at an https address into a file.
pub use sandbox_runtime_microsandbox::download;

/// Where runner images come from.
pub fn images() -> Arc<dyn Images> {
    #[cfg(debug_assertions)]
    if let Some(images) = fake::images().or_else(archive::images) {
        return images;
    }
    Arc::new(engine_images())
}

/// The image engines of this computer.
pub fn engine_images() -> EngineImages {
    EngineImages { client: ClientSettings::from_process(), docker_network: None }
}
