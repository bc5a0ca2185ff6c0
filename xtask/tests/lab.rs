//! Real microsandbox as a part of every test run: the short run of `cargo xtask lab`.

use std::process::{Command, Stdio};

#[test]
fn sandboxes_on_real_microsandbox() {
    // It says what it does as it goes, so that one that is ended for taking too long has told where it was.
    let mut lab = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let ended = lab.arg("lab").stdin(Stdio::null()).status().unwrap();
    assert!(ended.success(), "the lab ended with {ended}");
}
