//! Saved memory that its record calls whole, and that a real QEMU or its guest does not take: a boot with its reason.

use std::fs;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::house::{Case, House, Outcome, told};

pub const CASES: [Case; 1] = [("sleep_that_qemu_or_the_guest_does_not_wake_from_is_a_boot", refused)];

/// Falls asleep, and its record is changed once everything is on the disk.
fn sleeps_with(house: &House, change: impl Fn(&mut serde_json::Value) -> Outcome) -> Outcome {
    house.succeeds(&["stop"])?;
    let path = house.sandbox_dir()?.join("memory.json");
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut record: serde_json::Value = loop {
        let text = fs::read(&path).map_err(told)?;
        if String::from_utf8_lossy(&text).contains("\"on-disk\"") {
            break serde_json::from_slice(&text).map_err(told)?;
        }
        if Instant::now() > deadline {
            return Err("its memory does not reach the disk".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    change(&mut record)?;
    fs::write(&path, record.to_string()).map_err(told)
}

/// The next command says why it booted, and works.
fn boots_because(house: &mut House, what: &str, reasons: &[&str]) -> Outcome {
    let output = house.command(&["exec", "true"]).output().map_err(told)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line =
        said.lines().find(|line| line.contains("the saved memory could not be used, so the sandbox boots"));
    let line = line.ok_or_else(|| format!("{what}: no word of a boot: {said}"))?;
    eprintln!("{what}: {line}");
    if !reasons.iter().any(|reason| line.contains(reason)) {
        return Err(format!("{what}: another reason: {line}"));
    }
    house.works(what, false)
}

fn refused() -> Outcome {
    let mut house = House::new()?;
    house.keeps_root = true;
    house.works("the first boot", false)?;
    // The control: a record that is written again as it was is as good as before.
    sleeps_with(&house, |_| Ok(()))?;
    house.works("a wake", true)?;

    let state = house.sandbox_dir()?.join("memory.state");
    sleeps_with(&house, |record| {
        // Behind the head that names the machine: QEMU itself has to find out.
        let mut bytes = fs::read(&state).map_err(told)?;
        let half = bytes.len() / 2;
        bytes.truncate(half);
        fs::write(&state, &bytes).map_err(told)?;
        record["state"] = hex::encode(Sha256::digest(&bytes)).into();
        Ok(())
    })?;
    boots_because(&mut house, "half a state", &["the state could not be loaded", "QEMU"])?;

    sleeps_with(&house, |record| {
        let first = record["token"][0].as_u64().ok_or("no token")?;
        record["token"][0] = ((first + 1) % 256).into();
        Ok(())
    })?;
    boots_because(&mut house, "another token", &["the guest did not wake within 20 s"])
}
