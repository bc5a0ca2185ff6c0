//! The program killed at steps that touch the machine: the next one works, and nothing is lost.

use std::fs;

use crate::house::{Case, House, Outcome, told};

pub const CASES: [Case; 2] = [
    ("a_first_run_killed_at_any_step_is_made_good", first_runs),
    ("a_launcher_killed_at_any_step_loses_nothing", one_life),
];

/// Each time everything is new.
fn first_runs() -> Outcome {
    let mut house = House::new()?;
    for place in [
        "auto-prune",
        "image",
        "a home volume is begun",
        "a home volume is filled",
        "a record is in its place",
        "a machine has a disk and no name",
        "the sandbox is not started yet",
        "the machine boots",
        "the sandbox is started",
        "the keeper has a client",
        "provisioning",
    ] {
        house.dies(&["run"], place)?;
        house.works(place, false)?;
        house.clear();
    }
    Ok(())
}

fn one_life() -> Outcome {
    let mut house = House::new()?;
    // A first run, from one step to the next.
    for place in
        ["a home volume is filled", "a machine has a disk and no name", "the sandbox is not started yet"]
    {
        house.dies(&["run"], place)?;
    }
    house.dies(&["run"], "the machine boots")?;
    house.works("the first boot", false)?;

    // The machine runs.
    fs::write(house.project().join(".agents-sandbox/pi/settings.json"), "{\"theme\":\"dark\"}")
        .map_err(told)?;
    for place in ["provisioning", "agent", "cleanup"] {
        house.dies(&["run", "--", "hello"], place)?;
        house.works(place, true)?;
    }
    let ran = house.succeeds(&["run", "--", "hello"])?;
    let provisioned = house.succeeds(&["exec", "--", "sh", "-c", "cat ~/.pi/agent/settings.json"])?;
    if ran != "at work: hello\n" || !provisioned.contains("dark") {
        return Err(format!("the agent: {ran:?}, its settings: {provisioned:?}"));
    }

    // It falls asleep and wakes.
    house.dies(&["stop"], "the machine is told to end")?;
    house.works("falling asleep", true)?;
    house.succeeds(&["stop"])?;
    house.dies(&["run"], "the machine boots")?;
    house.works("waking", true)?;
    house.succeeds(&["stop"])?;
    // Nobody watches it then.
    house.dies(&["run"], "the sandbox is started")?;
    house.works("awake", true)?;

    // It shuts down, and is made anew.
    house.dies(&["stop", "--cold"], "the machine is told to end")?;
    house.works("shutting down", false)?;
    house.dies(&["stop", "--cold"], "the machine is told to end")?;
    house.disk = "2G";
    for place in ["the sandbox is at rest", "a machine is put aside", "a machine has a disk and no name"] {
        house.dies(&["run"], place)?;
    }
    house.works("made anew", false)?;
    let disk = house.succeeds(&["exec", "--root", "--", "sh", "-c", "cat /sys/block/*/size"])?;
    if !disk.lines().any(|sectors| sectors == "4194304") {
        return Err(format!("no disk has 2G: {disk}"));
    }

    // It is powered off, removed, and gets another home.
    house.dies(&["kill"], "the machine is told to end")?;
    house.works("power off", false)?;
    house.succeeds(&["stop", "--cold"])?;
    for place in ["a home volume is begun", "a home volume is filled"] {
        house.dies(&["volume", "migrate", "--rm"], place)?;
    }
    house.succeeds(&["volume", "migrate", "--rm"])?;
    let names = house.succeeds(&["list", "--names"])?;
    let name = names.lines().find(|name| name.starts_with(&house.own())).unwrap_or_default();
    house.dies(&["sandbox", "remove", name], "a machine is put aside")?;
    house.works("removal", false)
}
