//! Which runtime makes new sandboxes here.
//!
//! ```text
//! runtime: qemu | microsandbox ───────────────────────────────► that one
//! runtime: auto ── no CPU flag, or no usable /dev/kvm ────────► QEMU
//!            └── tried before, with this kernel and version ──► what came of it
//!                  └── a first boot, within a deadline ───────► remembered
//! ```

use fs_err as fs;
use sandbox_config::RuntimeChoice;
use sandbox_runtime::RuntimeError;
use sandbox_runtime_qemu::KvmHint;
use sandbox_state::{Layout, Lock, LockMode, StateError, read_record, write_record};
use serde::{Deserialize, Serialize};

/// Which driver makes new sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    Qemu,
    Microsandbox,
}

/// What a trial's outcome depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The release of the host's kernel.
    pub kernel: String,
    /// The version of microsandbox.
    pub version: String,
}

impl Host {
    pub fn here() -> Self {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Self { kernel, version: sandbox_runtime_microsandbox::VERSION.into() }
    }
}

/// `microsandbox.json`: how the first boot went, and what the user was last told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    #[serde(flatten)]
    pub host: Host,
    /// Whether a first boot was tried, and what was wrong with it.
    pub outcome: Option<Outcome>,
    pub told: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Works,
    Fails(String),
}

impl Trial {
    /// Nothing is known where the record is missing, of another host, or not to be read.
    pub fn read(layout: &Layout, host: &Host) -> Self {
        let record: Option<Self> = read_record(&layout.microsandbox_trial()).ok().flatten();
        let nothing = Self { host: host.clone(), outcome: None, told: None };
        record.filter(|record| record.host == *host).unwrap_or(nothing)
    }

    fn write(&self, layout: &Layout) -> Result<(), StateError> {
        write_record(&layout.microsandbox_trial(), self)
    }

    /// The next run tries again.
    pub fn forget(layout: &Layout) -> std::io::Result<()> {
        match fs::remove_file(layout.microsandbox_trial()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// What is to be done, before anything is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Take(Driver, Why),
    TryMicrosandbox,
}

/// Why it is that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Set,
    Proven,
    /// microsandbox cannot be used here, or was tried in vain.
    Not(String),
}

/// Pure.
pub fn decide(setting: RuntimeChoice, hint: &KvmHint, outcome: Option<&Outcome>) -> Decision {
    use Driver::{Microsandbox, Qemu};
    match (setting, hint, outcome) {
        (RuntimeChoice::Qemu, ..) => Decision::Take(Qemu, Why::Set),
        (RuntimeChoice::Microsandbox, ..) => Decision::Take(Microsandbox, Why::Set),
        (RuntimeChoice::Auto, KvmHint::No(why), _)
        | (RuntimeChoice::Auto, KvmHint::Plausible, Some(Outcome::Fails(why))) => {
            Decision::Take(Qemu, Why::Not(why.clone()))
        }
        (RuntimeChoice::Auto, KvmHint::Plausible, None) => Decision::TryMicrosandbox,
        (RuntimeChoice::Auto, KvmHint::Plausible, Some(Outcome::Works)) => {
            Decision::Take(Microsandbox, Why::Proven)
        }
    }
}

/// How a first boot is made. An error is one of the preparation, and proves nothing about this computer.
pub type FirstBoot<'a> = &'a dyn Fn() -> Result<Outcome, RuntimeError>;

/// Decides, trying microsandbox where only a first boot can tell, and says so once.
pub fn choose(
    layout: &Layout,
    host: &Host,
    setting: RuntimeChoice,
    hint: &KvmHint,
    first_boot: FirstBoot<'_>,
    tell: &dyn Fn(&str),
) -> Result<Driver, RuntimeError> {
    let other = |error: StateError| RuntimeError::Other { context: error.to_string(), source: None };
    let mut trial = Trial::read(layout, host);
    if decide(setting, hint, trial.outcome.as_ref()) == Decision::TryMicrosandbox {
        let _lock = Lock::take(
            &layout.microsandbox_trial_lock(),
            LockMode::Exclusive,
            "try microsandbox",
            |holder| {
                tell(&format!("waiting for {holder}, which boots microsandbox for the first time …"));
            },
        )
        .map_err(other)?;
        // Whoever held the lock may have tried it.
        trial = Trial::read(layout, host);
        if trial.outcome.is_none() {
            tell("trying microsandbox, once on this computer …");
            match first_boot() {
                Ok(outcome) => {
                    trial.outcome = Some(outcome);
                    trial.write(layout).map_err(other)?;
                }
                Err(error) => {
                    tell(&format!("sandboxes run on QEMU: microsandbox could not be tried: {error}"));
                    return Ok(Driver::Qemu);
                }
            }
        }
    }
    let Decision::Take(driver, why) = decide(setting, hint, trial.outcome.as_ref()) else {
        return Ok(Driver::Qemu);
    };
    let text = match why {
        Why::Set => return Ok(driver),
        Why::Proven => "sandboxes run on microsandbox: a first boot has worked".to_string(),
        Why::Not(why) => format!("sandboxes run on QEMU, not on microsandbox: {why}"),
    };
    if trial.told.as_ref() != Some(&text) {
        tell(&text);
        trial.told = Some(text);
        trial.write(layout).map_err(other)?;
    }
    Ok(driver)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use sandbox_state::Environment;

    use super::*;

    struct Fixture {
        layout: Layout,
        _dir: tempfile::TempDir,
        boots: Cell<u32>,
        told: RefCell<Vec<String>>,
    }

    impl Fixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let environment = Environment { home: Some(dir.path().into()), ..Environment::default() };
            let layout = Layout::new(&environment).unwrap();
            Self { layout, _dir: dir, boots: Cell::default(), told: RefCell::default() }
        }

        fn choose(&self, kernel: &str, hint: &KvmHint, outcome: &Outcome) -> Driver {
            let host = Host { kernel: kernel.into(), version: "1".into() };
            let boot = || {
                self.boots.set(self.boots.get() + 1);
                Ok(outcome.clone())
            };
            let tell = |text: &str| self.told.borrow_mut().push(text.into());
            choose(&self.layout, &host, RuntimeChoice::Auto, hint, &boot, &tell).unwrap()
        }
    }

    #[test]
    fn the_first_boot_is_made_once_for_each_kernel_and_told_once() {
        let fixture = Fixture::new();
        let fails = Outcome::Fails("it died".into());
        for _ in 0..3 {
            assert_eq!(fixture.choose("6.1", &KvmHint::Plausible, &fails), Driver::Qemu);
        }
        assert_eq!(fixture.boots.get(), 1);
        assert_eq!(
            *fixture.told.borrow(),
            [
                "trying microsandbox, once on this computer …",
                "sandboxes run on QEMU, not on microsandbox: it died"
            ]
        );
        for _ in 0..2 {
            assert_eq!(fixture.choose("6.2", &KvmHint::Plausible, &Outcome::Works), Driver::Microsandbox);
        }
        assert_eq!(fixture.boots.get(), 2);
        Trial::forget(&fixture.layout).unwrap();
        assert_eq!(fixture.choose("6.2", &KvmHint::Plausible, &fails), Driver::Qemu);
    }

    #[test]
    fn without_the_hardware_nothing_is_tried() {
        let fixture = Fixture::new();
        let no = KvmHint::No("no flag".into());
        for _ in 0..2 {
            assert_eq!(fixture.choose("6.1", &no, &Outcome::Works), Driver::Qemu);
        }
        assert_eq!(fixture.boots.get(), 0);
        assert_eq!(*fixture.told.borrow(), ["sandboxes run on QEMU, not on microsandbox: no flag"]);
        // The device may become usable: that is looked at each time.
        assert_eq!(fixture.choose("6.1", &KvmHint::Plausible, &Outcome::Works), Driver::Microsandbox);
    }

    #[test]
    fn what_could_not_be_tried_is_tried_again() {
        let fixture = Fixture::new();
        let host = Host { kernel: "6.1".into(), version: "1".into() };
        let broken = || Err(RuntimeError::other("no network"));
        let tell = |text: &str| fixture.told.borrow_mut().push(text.into());
        let choose =
            || choose(&fixture.layout, &host, RuntimeChoice::Auto, &KvmHint::Plausible, &broken, &tell);
        assert_eq!(choose().unwrap(), Driver::Qemu);
        assert!(fixture.told.borrow()[1].contains("no network"), "{:?}", fixture.told);
        assert_eq!(Trial::read(&fixture.layout, &host).outcome, None);
    }

    #[test]
    fn a_setting_is_obeyed() {
        let fails = Some(Outcome::Fails("it died".into()));
        for (setting, driver) in
            [(RuntimeChoice::Qemu, Driver::Qemu), (RuntimeChoice::Microsandbox, Driver::Microsandbox)]
        {
            for hint in [KvmHint::Plausible, KvmHint::No("no flag".into())] {
                assert_eq!(decide(setting, &hint, fails.as_ref()), Decision::Take(driver, Why::Set));
            }
        }
    }
}
