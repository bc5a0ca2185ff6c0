//! Trying out what cannot be taken back.
#![allow(unsafe_code)]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

/// Whether `action` works, tried in a child: namespaces that are half allowed (as by rules that allow a user
/// namespace but no mount in it) cannot be left again. The calling process must have one thread.
pub(crate) fn works_in_a_child<T>(action: impl FnOnce() -> io::Result<T>) -> io::Result<bool> {
    // SAFETY: the caller guarantees a single thread, so the child has a consistent copy of everything; it leaves
    // by `_exit` below.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            set_hook(Box::new(|_| {}));
            let worked = catch_unwind(AssertUnwindSafe(|| action().is_ok()));
            let code = i32::from(!matches!(worked, Ok(true)));
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is valid for the call, `child` is our own and not yet waited for.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0)
        }
    }
}
