//! `cargo xtask lab`: the runtime contract on real microsandbox, on any x86-64 machine.
//!
//! QEMU emulates AMD's nested virtualization, so a Debian guest of it has a true `/dev/kvm` and boots
//! unmodified microsandbox guests. What passes there is the real runtime; what cannot be learnt there is
//! absolute speed.
//!
//! ```text
//! target/lab/
//!   base-KEY/      Debian with a kernel: disk, kernel, initrd        cached by what goes into it
//!   image-KEY/     the sandboxes' image as a docker archive          cached by what goes into it
//!   runtime/       the pinned runtime, installed as the program does it
//!   inputs.img     the second disk: all of it, the cases' program, and afterwards the logs
//!   serial.log, logs/
//! ```

mod base;
mod cases;
mod image;
mod inputs;
mod machine;
mod steps;

use std::path::PathBuf;

use steps::{Outcome, text};

/// Where everything is, and which cases to run (all, where none is named).
struct Lab {
    dir: PathBuf,
    cases: Vec<String>,
}

/// Builds what is missing, boots the lab, and fails unless every case passed.
pub fn run(cases: &[String]) -> Outcome {
    let own = std::env::current_exe().map_err(|error| text(&error))?;
    // This chore lies in <target>/<profile>/.
    let target = own.ancestors().nth(2).ok_or("no target folder")?;
    let lab = Lab { dir: target.join("lab"), cases: cases.to_vec() };
    std::fs::create_dir_all(&lab.dir).map_err(|error| text(&error))?;
    let program = cases::build(target)?;
    let base = base::ensure(&lab.dir)?;
    let image = image::ensure(&lab.dir, &program)?;
    let runtime = cases::install_runtime(&program, &lab.dir)?;
    let inputs = inputs::make(&lab.dir, &inputs::Parts { program, image, runtime, cases: lab.cases })?;
    let verdict = machine::run(&lab.dir, &base, &inputs);
    inputs::take_logs(&inputs, &lab.dir)?;
    println!("the serial console: {}", lab.dir.join("serial.log").display());
    println!("logs: {}", lab.dir.join("logs").display());
    let verdict = verdict?;
    println!("{verdict}");
    if verdict.ends_with(" 0 failed") && !verdict.starts_with("0 ") {
        Ok(())
    } else {
        Err("not every case passed".into())
    }
}
