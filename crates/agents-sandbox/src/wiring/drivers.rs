//! The drivers, with what each needs from this program.

use std::path::Path;
use std::time::Duration;

use ipnetwork::IpNetwork;
use sandbox_config::{QemuAccel, Settings};
use sandbox_model::NetworkPolicy;
use sandbox_runtime::RuntimeError;
use sandbox_runtime_microsandbox::{
    ADDRESS_POOLS, Found, InstallEvent, Installation, Installed, MsbOptions, MsbRuntime, Patience,
    RuntimeSource,
};
use sandbox_runtime_qemu::{
    AccelChoice, KernelSource, QemuOptions, QemuRuntime, check_kernel, guest_program, wrapped_kernel,
};
use sandbox_state::Layout;

use super::choice::Outcome;
use crate::report::{Console, Lines};

/// A first boot takes a second or two, and ten times that where KVM is itself emulated. One that fails ends by
/// itself: only one that hangs needs a deadline, and a busy computer must not look like one.
const FIRST_BOOT: Duration = Duration::from_mins(3);
/// Nobody waits longer for an answer that is only looked at.
const LOOK: Duration = Duration::from_secs(15);

pub fn qemu(layout: &Layout, program: &Path, settings: &Settings, console: &Console) -> QemuRuntime {
    let lines = console.notices();
    let options = QemuOptions {
        program: program.into(),
        kernel: kernel(layout.clone(), settings, console.notices()),
        accel: match settings.qemu_accel.value {
            QemuAccel::Auto => AccelChoice::Auto,
            QemuAccel::Kvm => AccelChoice::Kvm,
            QemuAccel::Tcg => AccelChoice::Tcg,
        },
        notice: Box::new(move |text| lines.write(text)),
    };
    QemuRuntime::new(layout, options)
}

pub fn microsandbox(layout: &Layout, program: &Path, settings: &Settings, console: &Console) -> MsbRuntime {
    let (source, lines, place) = (source(settings), console.notices(), layout.clone());
    let notices = console.notices();
    let options = MsbOptions {
        msb: Box::new(move || Ok(installed(&place, &source, &lines)?.msb)),
        program: Some(program.into()),
        guest_program: guest_program(),
        most_cpus: None,
        network_rules,
        notice: Box::new(move |text| notices.write(text)),
        patience: Patience::default(),
    };
    msb_runtime(layout, options)
}

/// The same for a look: what is not installed whole stays so, and fails.
pub fn microsandbox_as_it_is(layout: &Layout) -> MsbRuntime {
    let place = layout.clone();
    let installed = move || match sandbox_runtime_microsandbox::installation(&place) {
        Ok(Installation { found: Found::Whole(installed), .. }) => Ok(installed.msb),
        Ok(_) => Err(RuntimeError::other("it is not installed, or damaged")),
        Err(error) => Err(failed("the private runtime", error)),
    };
    let options = MsbOptions {
        msb: Box::new(installed),
        program: None,
        guest_program: guest_program(),
        most_cpus: None,
        network_rules,
        notice: Box::new(|_| {}),
        patience: Patience { ask: LOOK, ..Patience::default() },
    };
    msb_runtime(layout, options)
}

fn msb_runtime(layout: &Layout, options: MsbOptions) -> MsbRuntime {
    #[cfg(debug_assertions)]
    let options = super::stand_in::replace(options);
    MsbRuntime::new(layout, options)
}

/// What a release of this program calls the runtime that it comes with, and what its fetch puts in.
const RELEASED: &str = "msb-{version}-{arch}.tar.gz";

/// Where the private runtime is installed from: `msb.archive`, else the place that has this program's releases, and pip
/// where that has none.
pub fn source(settings: &Settings) -> RuntimeSource {
    if let Some(path) = &settings.msb_archive.value {
        return RuntimeSource { path: Some(path.clone()), ..RuntimeSource::default() };
    }
    match settings.upgrade_source.value.as_deref() {
        Some(address) if address.starts_with("https://") => {
            let url = format!("{}/{RELEASED}", address.trim_end_matches('/'));
            RuntimeSource { url: Some(url), ..RuntimeSource::default() }
        }
        Some(folder) => {
            let path = Some(Path::new(folder).join(filled_in(RELEASED))).filter(|path| path.is_file());
            RuntimeSource { path, ..RuntimeSource::default() }
        }
        None => RuntimeSource::default(),
    }
}

/// What stands in a source's name or address for the version and the processor, as the install replaces it.
pub fn filled_in(template: &str) -> String {
    template
        .replace("{version}", sandbox_runtime_microsandbox::VERSION)
        .replace("{arch}", std::env::consts::ARCH)
}

/// Boots a smallest sandbox on microsandbox, and removes it.
pub fn first_boot(layout: &Layout, source: &RuntimeSource, lines: &Lines) -> Result<Outcome, RuntimeError> {
    let installed = installed(layout, source, lines)?;
    Ok(match sandbox_runtime_microsandbox::first_boot(layout, &installed, FIRST_BOOT)? {
        Ok(()) => Outcome::Works,
        Err(problem) => Outcome::Fails(problem),
    })
}

fn network_rules(policy: &NetworkPolicy) -> Result<Option<Vec<String>>, RuntimeError> {
    let [v4, v6] = ADDRESS_POOLS.map(|pool| {
        pool.parse::<IpNetwork>().map_err(|error| failed("an address pool of the runtime", error))
    });
    sandbox_network::rule_tokens(policy, [v4?, v6?]).map_err(|error| failed("the network settings", error))
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
    let source = source(settings);
    Box::new(move || {
        let libkrunfw = installed(&layout, &source, &lines)?.libkrunfw;
        wrapped_kernel(&libkrunfw, &layout.qemu().boot_files())
            .map_err(|error| failed("the guest kernel could not be prepared", error))
    })
}

/// The private runtime, installed where it is missing.
pub fn installed(layout: &Layout, source: &RuntimeSource, lines: &Lines) -> Result<Installed, RuntimeError> {
    let mut told = false;
    sandbox_runtime_microsandbox::ensure(layout, source, &mut |event| {
        let text = match event {
            InstallEvent::Waiting { holder } => format!("waiting for {holder} to install microsandbox"),
            InstallEvent::Damaged { problem } => format!("microsandbox is installed again: {problem}"),
            InstallEvent::Asking { source } => {
                format!(
                    "installing microsandbox, whose kernel every sandbox boots, under QEMU too: {source} …"
                )
            }
            InstallEvent::Fetched { total: Some(total), .. } if !told => {
                told = true;
                format!("fetching {} MB …", total / 1_000_000)
            }
            InstallEvent::Fetched { .. } => return,
            InstallEvent::Failed { source, problem } => format!("{source}: {problem}"),
            InstallEvent::Installed { version } => format!("microsandbox {version} is installed"),
        };
        lines.write(&text);
    })
    .map_err(|error| failed("the private runtime could not be had", error))
}

fn failed(context: &str, error: impl std::error::Error + Send + Sync + 'static) -> RuntimeError {
    RuntimeError::Other { context: context.into(), source: Some(Box::new(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released_at(place: &str) -> Settings {
        let mut settings = Settings::default();
        settings.upgrade_source.value = Some(place.into());
        settings
    }

    #[test]
    fn the_runtime_comes_from_the_programs_release_before_pip() {
        assert_eq!(source(&Settings::default()), RuntimeSource::default());
        for address in ["https://example.org/releases", "https://example.org/releases/"] {
            let found = source(&released_at(address));
            let url = "https://example.org/releases/msb-{version}-{arch}.tar.gz";
            assert_eq!((found.url.as_deref(), found.path, found.pip), (Some(url), None, true));
        }
        let mut settings = released_at("https://example.org/releases");
        settings.msb_archive.value = Some("/srv/msb".into());
        let found = source(&settings);
        assert_eq!((found.url, found.path), (None, Some("/srv/msb".into())), "what is meant for it alone");
    }

    #[test]
    fn a_folder_with_releases_is_asked_where_it_has_the_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let settings = released_at(folder.path().to_str().unwrap());
        assert_eq!(source(&settings), RuntimeSource::default());
        let name = format!("msb-{}-{}.tar.gz", sandbox_runtime_microsandbox::VERSION, std::env::consts::ARCH);
        let archive = folder.path().join(name);
        std::fs::write(&archive, "").unwrap();
        assert_eq!(source(&settings).path, Some(archive));
    }
}
