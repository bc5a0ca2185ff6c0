//! The machine process, and whoever writes its memory to the disk, killed at each step of a sleep and of a wake.
//! `vm/sleep_steps.rs` does the same to real machines.

use sandbox_runtime_qemu::machine::StartReport;
use sandbox_wire::MachineReply;

use crate::stand_in_qemu::Machine;

#[track_caller]
fn starts(machine: &mut Machine) -> (Vec<String>, bool) {
    match machine.start("") {
        Some(StartReport::Ready { notes, woken, .. }) => (notes, woken),
        other => panic!("{other:?}: {}", machine.log()),
    }
}

#[track_caller]
fn was_killed(machine: &Machine, step: &str) {
    let line = format!("killed: {step}\n");
    machine.eventually(&format!("it comes to `{step}`"), |machine| machine.log().contains(&line));
    machine.leaves_no_process();
}

/// It shuts down as ever, and no memory is left.
#[track_caller]
fn ends_well(machine: &mut Machine, step: &str) {
    let reply = machine.end(false);
    assert!(matches!(reply, Some(MachineReply::Stopped { forced: false, .. })), "{step}: {reply:?}");
    for file in ["memory.json", "memory.ram", "memory.ram.new", "memory.state"] {
        assert!(!machine.file(file).exists(), "{step}: {file} is left");
    }
    machine.leaves_no_process();
}

#[test]
fn a_machine_killed_as_it_falls_asleep_boots_or_wakes() {
    const LAST: &str = "the machine is asleep";
    for step in [
        "the guest has settled",
        "the guest has left its link",
        "the state is saved",
        "the parts are gone",
        "the memory has a holder",
        LAST,
    ] {
        let mut machine = Machine::new();
        assert!(machine.start_to_die("", step).is_some(), "{}", machine.log());
        assert_eq!(machine.end(true), None, "{step}");
        was_killed(&machine, step);
        // What is not asleep yet is no memory, and nothing to tell of.
        assert_eq!(starts(&mut machine), (vec![], step == LAST), "{step}");
        ends_well(&mut machine, step);
    }
}

#[test]
fn a_writer_of_memory_that_is_killed_loses_it_until_all_of_it_is_on_the_disk() {
    const LAST: &str = "the memory is on the disk";
    for step in ["the memory is copied", "the disks are synced", "the memory has its name", LAST] {
        let mut machine = Machine::new();
        assert!(machine.start_to_die("", step).is_some(), "{}", machine.log());
        let reply = machine.end(true);
        assert!(matches!(reply, Some(MachineReply::Stopped { asleep: true, .. })), "{step}: {reply:?}");
        was_killed(&machine, step);
        let (notes, woken) = starts(&mut machine);
        assert_eq!(woken, step == LAST, "{step}: {notes:?}");
        let said = notes.iter().any(|note| note.contains("ended before it was done"));
        assert_eq!(said, step != LAST, "{step}: {notes:?}");
        ends_well(&mut machine, step);
    }
}

#[test]
fn a_machine_killed_as_it_wakes_wakes_again_until_its_memory_is_used_up() {
    for (step, wakes_again) in [
        ("the parts wait for the memory", true),
        ("the state is loaded", true),
        ("the memory is used up", false),
        ("the guest is called", false),
        ("the guest goes on", false),
        ("the guest is awake", false),
        ("the used memory is gone", false),
    ] {
        let mut machine = Machine::new();
        starts(&mut machine);
        machine.sleeps();
        assert_eq!(machine.start_to_die("", step), None, "{step}");
        was_killed(&machine, step);
        assert_eq!(starts(&mut machine), (vec![], wakes_again), "{step}");
        ends_well(&mut machine, step);
    }
}
