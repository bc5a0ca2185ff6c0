//! Many terminals at once on a project that has nothing yet.

use std::process::Stdio;

use crate::house::{Case, House, Outcome, told};

pub const CASES: [Case; 1] = [("twenty_runs_at_once_make_one_sandbox", twenty_runs)];

/// Image, home and sandbox are made once, and every agent gets its words.
fn twenty_runs() -> Outcome {
    let mut house = House::new()?;
    let mut runs = Vec::new();
    for number in 0..20 {
        let mut command = house.command(&["run", "--", &number.to_string()]);
        runs.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(told)?);
    }
    let mut ended = Vec::new();
    for run in runs {
        ended.push(run.wait_with_output().map_err(told)?);
    }
    for (number, output) in ended.into_iter().enumerate() {
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || said != format!("at work: {number}\n") {
            let problem = String::from_utf8_lossy(&output.stderr);
            return Err(format!("run {number}: {} {said:?} {problem}", output.status));
        }
    }
    house.works("twenty runs", false)
}
