//! The one place that names drivers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_config::{QemuAccel, Settings};
use sandbox_image::ClientSettings;
use sandbox_lifecycle::{EngineImages, Images};
use sandbox_runtime::{Runtime, RuntimeError};
use sandbox_runtime_microsandbox::{InstallEvent, RuntimeSource};
use sandbox_runtime_qemu::{
    AccelChoice, KernelSource, QemuOptions, QemuRuntime, check_kernel, wrapped_kernel,
};
use sandbox_state::Layout;

use crate::app::App;
use crate::commands::args::LogLevel;
use crate::error::CommandError;
use crate::report::{Console, Lines};

#[cfg(debug_assertions)]
mod fake;

/// The runtime for a process that watches: it starts nothing, and nobody sees its remarks.
pub fn background_runtime() -> Result<Arc<dyn Runtime>, CommandError> {
    runtime(&App::layout()?, &App::program()?, &Settings::default(), &Console::new(LogLevel::Error))
}

/// The runtime that this computer can use. Makes nothing and starts nothing.
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
    let lines = console.notices();
    Ok(Arc::new(QemuRuntime::new(
        layout,
        QemuOptions {
            program: program.into(),
            kernel: kernel(layout.clone(), settings, console.notices()),
            accel: match settings.qemu_accel.value {
                QemuAccel::Auto => AccelChoice::Auto,
                QemuAccel::Kvm => AccelChoice::Kvm,
                QemuAccel::Tcg => AccelChoice::Tcg,
            },
            notice: Box::new(move |text| lines.write(text)),
        },
    )))
}

/// Where runner images come from.
pub fn images() -> Arc<dyn Images> {
    #[cfg(debug_assertions)]
    if let Some(images) = fake::images() {
        return images;
    }
    Arc::new(engine_images())
}

/// The image engines of this computer.
pub fn engine_images() -> EngineImages {
    EngineImages { client: ClientSettings::from_process(), docker_network: None }
}

/// The guest kernel: the one that the settings name, or that of the private runtime, which is installed
/// where it is missing.
fn kernel(layout: Layout, settings: &Settings, lines: Lines) -> KernelSource {
    if let Some(path) = settings.qemu_kernel.value.clone() {
        return Box::new(move || {
            check_kernel(&path).map_err(|error| failed("the kernel that `qemu.kernel` names", error))?;
            Ok(path.clone())
        });
    }
    let source = RuntimeSource { path: settings.msb_archive.value.clone(), ..RuntimeSource::default() };
    Box::new(move || installed_kernel(&layout, &source, &lines))
}

fn installed_kernel(layout: &Layout, source: &RuntimeSource, lines: &Lines) -> Result<PathBuf, RuntimeError> {
    let mut told = false;
    let installed = sandbox_runtime_microsandbox::ensure(layout, source, &mut |event| {
        let text = match event {
            InstallEvent::Waiting { holder } => format!("waiting for {holder} to install the runtime"),
            InstallEvent::Damaged { problem } => format!("the runtime is installed again: {problem}"),
            InstallEvent::Asking { source } => format!("installing the runtime: {source} …"),
            InstallEvent::Fetched { total: Some(total), .. } if !told => {
                told = true;
                format!("fetching {} MB …", total / 1_000_000)
            }
            InstallEvent::Fetched { .. } => return,
            InstallEvent::Failed { source, problem } => format!("{source}: {problem}"),
            InstallEvent::Installed { version } => format!("the runtime {version} is installed"),
        };
        lines.write(&text);
    })
    .map_err(|error| failed("the guest kernel could not be had", error))?;
    wrapped_kernel(&installed.libkrunfw, &layout.qemu().boot_files())
        .map_err(|error| failed("the guest kernel could not be prepared", error))
}

fn failed(context: &str, error: impl std::error::Error + Send + Sync + 'static) -> RuntimeError {
    RuntimeError::Other { context: context.into(), source: Some(Box::new(error)) }
}
