//! Values that can be written and that no machine can have: refused by name, before anything is made.

use std::num::NonZero;
use std::thread::available_parallelism;

use sandbox_config::{Origin, Settings};
use sandbox_model::ByteSize;

use crate::error::CommandError;
use crate::exit::Exit;

/// A kernel, an agent and its tools.
const LEAST_MEMORY: ByteSize = ByteSize::mib(256);
/// A file system, and something in it.
const LEAST_DISK: ByteSize = ByteSize::mib(64);
/// What ext4 can be in one file of blocks of 4096 bytes.
const MOST_DISK: ByteSize = ByteSize::gib(16 * 1024 - 1);

/// What this computer has.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    pub cpus: usize,
    pub memory: ByteSize,
}

impl Host {
    pub fn here() -> Self {
        let info = rustix::system::sysinfo();
        #[allow(clippy::useless_conversion, reason = "the width differs between platforms")]
        let memory = u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit));
        Self { cpus: available_parallelism().map_or(1, NonZero::get), memory: ByteSize::from_bytes(memory) }
    }
}

/// Checks what was set; what is built in is as it is.
pub fn check(settings: &Settings, host: Host) -> Result<(), CommandError> {
    let cpus = &settings.cpus;
    if usize::from(cpus.value) > host.cpus {
        let problem = format!("{} is more than the {} processors of this computer", cpus.value, host.cpus);
        return Err(refused(
            "cpus",
            &problem,
            &format!("1 to {}, or 0 for all of them", host.cpus),
            &cpus.origin,
        ));
    }
    let memory = &settings.memory;
    let whole = ByteSize::mib(host.memory.bytes() >> 20);
    let form = format!("{LEAST_MEMORY} to {whole}, such as 2G");
    if memory.value < LEAST_MEMORY {
        let problem = format!("{} is too little for a virtual machine", memory.value);
        return Err(refused("memory", &problem, &form, &memory.origin));
    }
    if memory.value > host.memory && memory.origin != Origin::Default {
        let problem = format!("{} is more than the {} of this computer", memory.value, host.memory.human());
        return Err(refused("memory", &problem, &form, &memory.origin));
    }
    let tmp = &settings.tmp_size;
    if tmp.value > memory.value && tmp.origin != Origin::Default {
        let problem = format!(
            "{} is more than the {} of memory that the sandbox has, and /tmp is memory",
            tmp.value, memory.value
        );
        return Err(refused("tmp-size", &problem, &format!("at most {}", memory.value), &tmp.origin));
    }
    if let Some(size) = settings.disk_size.value {
        let form = format!("{LEAST_DISK} to {MOST_DISK}, such as 16G");
        let problem = if size < LEAST_DISK {
            format!("{size} is too little for a disk")
        } else if size > MOST_DISK {
            format!("{size} is more than a disk can have")
        } else {
            return Ok(());
        };
        return Err(refused("disk-size", &problem, &form, &settings.disk_size.origin));
    }
    Ok(())
}

fn refused(setting: &str, problem: &str, form: &str, origin: &Origin) -> CommandError {
    let exit = if matches!(origin, Origin::Flag { .. }) { Exit::USAGE } else { Exit::FAILURE };
    CommandError { exit, ..CommandError::new(format!("{setting}: {problem}")) }
        .hint(format!("write {form}"))
        .hint(format!("it is set by {origin}"))
}

#[cfg(test)]
mod tests {
    use sandbox_config::Value;

    use super::*;

    const HOST: Host = Host { cpus: 4, memory: ByteSize::gib(8) };

    fn with(change: impl FnOnce(&mut Settings)) -> Result<(), String> {
        let mut settings = Settings::default();
        change(&mut settings);
        check(&settings, HOST).map_err(|error| error.message)
    }

    fn flag<T>(value: T) -> Value<T> {
        Value { value, origin: Origin::Flag { name: "--x" } }
    }

    #[test]
    fn what_no_machine_can_have_is_refused_by_name() {
        for (size, problem) in [
            (ByteSize::mib(1), Some("memory: 1M is too little for a virtual machine")),
            (ByteSize::mib(255), Some("memory: 255M is too little for a virtual machine")),
            (ByteSize::mib(256), None),
            (ByteSize::gib(8), None),
            (ByteSize::gib(9999), Some("memory: 9999G is more than the 8G of this computer")),
        ] {
            assert_eq!(with(|s| s.memory = flag(size)).err().as_deref(), problem);
        }
        for (count, problem) in
            [(0, None), (4, None), (255, Some("cpus: 255 is more than the 4 processors of this computer"))]
        {
            assert_eq!(with(|s| s.cpus = flag(count)).err().as_deref(), problem);
        }
        for (size, problem) in [
            (ByteSize::mib(1), Some("disk-size: 1M is too little for a disk")),
            (ByteSize::gib(4), None),
            (ByteSize::gib(99_999), Some("disk-size: 99999G is more than a disk can have")),
        ] {
            assert_eq!(with(|s| s.disk_size = flag(Some(size))).err().as_deref(), problem);
        }
    }

    #[test]
    fn a_tmp_that_no_memory_could_hold_is_refused_where_it_was_asked_for() {
        let sized = |memory, tmp: Option<ByteSize>| {
            with(|s| {
                s.memory = flag(memory);
                if let Some(size) = tmp {
                    s.tmp_size = flag(size);
                }
            })
        };
        let problem = "tmp-size: 3G is more than the 2G of memory that the sandbox has, and /tmp is memory";
        assert_eq!(sized(ByteSize::gib(2), Some(ByteSize::gib(3))).err().as_deref(), Some(problem));
        assert!(sized(ByteSize::gib(2), Some(ByteSize::gib(2))).is_ok());
        // What is built in is only a limit, which a small machine never comes to.
        assert!(sized(ByteSize::mib(512), None).is_ok());
    }

    #[test]
    fn a_small_computer_is_no_reason_to_refuse_what_is_built_in() {
        assert!(check(&Settings::default(), Host { cpus: 1, memory: ByteSize::gib(2) }).is_ok());
    }
}
