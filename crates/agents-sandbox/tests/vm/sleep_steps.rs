//! A real machine process, and whoever writes its memory to the disk, killed at each step of a sleep and of a wake:
//! home, checkout and root disk are whole, and the next command works.

use std::time::{Duration, Instant};

use crate::house::{Case, House, Outcome, told};

pub const CASES: [Case; 3] = [
    ("sleep_steps_killed_as_it_falls_asleep", falls_asleep),
    ("sleep_steps_killed_as_its_memory_is_written", is_written),
    ("sleep_steps_killed_as_it_wakes", wakes),
];

/// Starts a machine that dies at this step.
fn armed(house: &House, step: &str) -> Outcome<bool> {
    let mut command = house.command(&["exec", "true"]);
    let output = command.env("AGENTS_SANDBOX_KILL_AT", step).output().map_err(told)?;
    Ok(output.status.success())
}

fn was_killed(house: &House, step: &str) -> Outcome {
    let line = format!("killed: {step}\n");
    let deadline = Instant::now() + Duration::from_mins(1);
    while !house.machine_log()?.contains(&line) {
        if Instant::now() > deadline {
            return Err(format!("it does not come to `{step}`: {}", house.machine_log()?));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn begin() -> Outcome<House> {
    let mut house = House::new()?;
    house.keeps_root = true;
    house.works("the first boot", false)?;
    Ok(house)
}

fn falls_asleep() -> Outcome {
    let mut house = begin()?;
    for (step, sleeps) in [
        ("the guest has settled", false),
        ("the guest has left its link", false),
        ("the state is saved", false),
        ("the parts are gone", false),
        ("the memory has a holder", false),
        ("the machine is asleep", true),
    ] {
        house.succeeds(&["stop", "--cold"])?;
        if !armed(&house, step)? {
            return Err(format!("`{step}`: the machine does not start"));
        }
        house.works(&format!("{step}: before"), false)?;
        // Whether its end is a failure is the program's matter.
        house.command(&["stop"]).output().map_err(told)?;
        was_killed(&house, step)?;
        house.works(step, sleeps)?;
    }
    Ok(())
}

fn is_written() -> Outcome {
    let mut house = begin()?;
    for (step, lasts) in [
        ("the memory is copied", false),
        ("the disks are synced", false),
        ("the memory has its name", false),
        ("the memory is on the disk", true),
    ] {
        house.succeeds(&["stop", "--cold"])?;
        if !armed(&house, step)? {
            return Err(format!("`{step}`: the machine does not start"));
        }
        house.works(&format!("{step}: before"), false)?;
        house.succeeds(&["stop"])?;
        was_killed(&house, step)?;
        house.works(step, lasts)?;
    }
    Ok(())
}

fn wakes() -> Outcome {
    let mut house = begin()?;
    for (step, wakes_again) in [
        ("the parts wait for the memory", true),
        ("the state is loaded", true),
        ("the memory is used up", false),
        ("the guest is called", false),
        ("the guest goes on", false),
        ("the guest is awake", false),
        ("the used memory is gone", false),
    ] {
        house.succeeds(&["stop"])?;
        if armed(&house, step)? {
            return Err(format!("`{step}`: the machine was to die"));
        }
        was_killed(&house, step)?;
        house.works(step, wakes_again)?;
    }
    Ok(())
}
