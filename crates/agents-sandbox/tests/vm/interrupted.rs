//! Ctrl-C while a real machine boots.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::house::{Case, House, Outcome, told};

pub const CASES: [Case; 1] = [("ctrl_c_while_it_boots_leaves_nothing_in_the_way", boots)];

const PATIENCE: Duration = Duration::from_mins(1);

/// Who works in the sandbox's folder: machine process, share server, QEMU.
fn processes(house: &House) -> Vec<String> {
    let Ok(dir) = house.sandbox_dir() else { return Vec::new() };
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == dir) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

fn wait_for(what: &str, is: impl Fn() -> bool) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        if Instant::now() > deadline {
            return Err(format!("{what}: not within {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Ctrl-C once QEMU is there, long before a guest of it can answer.
fn interrupt(house: &House, when: &str, run: Child) -> Outcome {
    let qemu = || processes(house).iter().any(|line| line.contains("qemu-system"));
    wait_for(&format!("{when}: QEMU is started"), qemu)?;
    let pid = Pid::from_raw(run.id().cast_signed()).ok_or("no number of a process")?;
    kill_process(pid, Signal::INT).map_err(told)?;
    let begun = Instant::now();
    wait_for(&format!("{when}: it ends"), || processes(house).is_empty())?;
    let output = run.wait_with_output().map_err(told)?;
    eprintln!("{when}: gone after {:.1} s", begun.elapsed().as_secs_f64());
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(130) && said.contains("interrupted") {
        return Ok(());
    }
    Err(format!("{when}: {} {:?} {said}", output.status, output.status.signal()))
}

fn boots() -> Outcome {
    let mut house = House::new()?;
    let run = |house: &House| {
        let mut command = house.command(&["run", "--", "hello"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(told)
    };
    let first = run(&house)?;
    interrupt(&house, "the first boot", first)?;
    house.works("the first boot", false)?;
    house.succeeds(&["stop", "--cold"])?;
    let again = run(&house)?;
    interrupt(&house, "another boot", again)?;
    house.works("another boot", false)
}
