#![allow(unsafe_code)]

use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use crate::error::CommandError;

/// The descriptor that whoever started this process handed over as `FLAG N`.
pub fn descriptor(arguments: &[OsString], flag: &str) -> Result<OwnedFd, CommandError> {
    let [name, number] = arguments else { return Err(missing(flag)) };
    let number: RawFd =
        number.to_str().and_then(|number| number.parse().ok()).ok_or_else(|| missing(flag))?;
    if name != flag || number <= 2 {
        return Err(missing(flag));
    }
    // Whoever runs this by hand gets an error instead of a descriptor that is not there.
    if !Path::new("/proc/self/fd").join(number.to_string()).exists() {
        return Err(CommandError::new(format!("descriptor {number} is not open")));
    }
    // SAFETY: the descriptor is open, and this process was started to own it: nothing else here uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn missing(flag: &str) -> CommandError {
    CommandError::new(format!("{flag} and the number of an open descriptor are missing"))
}
