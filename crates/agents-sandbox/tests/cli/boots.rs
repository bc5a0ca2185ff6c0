//! Boots and wakes that fail: what is tried next, what is told, and that nothing is left.

use std::time::{Duration, Instant};

use sandbox_runtime_qemu::machine::{Accel, StartReport};
use sandbox_wire::MachineReply;

use crate::stand_in_qemu::Machine;

#[track_caller]
fn ready(machine: &mut Machine, wishes: &str) -> (Accel, Vec<String>, bool) {
    match machine.start(wishes) {
        Some(StartReport::Ready { accel, notes, woken }) => (accel, notes, woken),
        other => panic!("{other:?}: {}", machine.log()),
    }
}

#[test]
fn a_boot_that_hangs_is_tried_once_more_and_told_with_the_consoles_last_lines() {
    let mut machine = Machine::new();
    machine.boot_deadline_secs = 4;
    let begun = Instant::now();
    let report = machine.start("tcg=hang");
    let took = begun.elapsed();
    let Some(StartReport::Failed { problem, log }) = report else { panic!("{report:?}") };
    assert_eq!(problem, "the guest did not answer within 4 s");
    // What the second boot printed is the end of it.
    assert!(log.ends_with("the kernel begins\nwaiting for a disk that never comes"), "{log}");
    assert_eq!(machine.starts(), ["tcg", "tcg"]);
    assert!(took >= Duration::from_secs(8), "{took:?}");
    assert_eq!(machine.word(), "crashed");
    assert_eq!(std::fs::read_to_string(machine.file("problem")).unwrap(), problem);
    machine.leaves_no_process();
    // The next start finds nothing in its way.
    machine.boot_deadline_secs = 20;
    assert_eq!(ready(&mut machine, ""), (Accel::Tcg, vec![], false));
    let reply = machine.end(false);
    assert!(matches!(reply, Some(MachineReply::Stopped { forced: false, .. })), "{reply:?}");
    assert_eq!(machine.word(), "stopped");
    machine.leaves_no_process();
}

#[test]
fn a_boot_that_is_killed_at_its_deadline_takes_its_helpers_along() {
    let mut machine = Machine::new();
    machine.boot_deadline_secs = 600;
    std::thread::scope(|scope| {
        let dir = machine.file("");
        // Whoever gives up waiting ends the machine process; it does not end its parts any more.
        let killer = scope.spawn(move || {
            let begun = Instant::now();
            loop {
                let console = std::fs::read_to_string(dir.join("console.log")).unwrap_or_default();
                if console.contains("never comes") {
                    return end_machine_of(&dir);
                }
                assert!(begun.elapsed() < Duration::from_mins(1), "it does not begin to boot");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        assert_eq!(machine.start("tcg=hang"), None);
        killer.join().unwrap();
    });
    machine.leaves_no_process();
    assert_eq!(machine.starts(), ["tcg"]);
    assert_eq!(ready(&mut machine, ""), (Accel::Tcg, vec![], false));
}

fn end_machine_of(dir: &std::path::Path) {
    let dir = dir.to_string_lossy();
    let wanted = format!("\0internal\0machine\0{}\0", dir.trim_end_matches('/')).into_bytes();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.windows(wanted.len()).any(|part| part == wanted) {
            let pid =
                entry.file_name().to_str().unwrap().parse().ok().and_then(rustix::process::Pid::from_raw);
            rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).unwrap();
            return;
        }
    }
    panic!("there is no machine process of {dir}");
}

#[test]
fn kvm_that_hangs_or_fails_gives_way_to_emulation() {
    let mut machine = Machine::new();
    machine.accels = vec![Accel::Kvm, Accel::Tcg];
    // What works is not given up for what is slower.
    assert_eq!(ready(&mut machine, "kvm=boot"), (Accel::Kvm, vec![], false));
    machine.end(false);
    assert_eq!(machine.starts(), ["kvm"]);

    let (accel, notes, _) = ready(&mut machine, "kvm=fail");
    assert_eq!(accel, Accel::Tcg);
    let failed = "a boot with kvm failed (QEMU ended while the guest booted (exit status: 1)); trying tcg";
    assert_eq!((notes, machine.starts()), (vec![failed.to_string()], vec!["kvm".into(), "tcg".into()]));
    machine.end(false);

    machine.boot_deadline_secs = 6;
    let (accel, notes, _) = ready(&mut machine, "kvm=hang");
    assert_eq!(accel, Accel::Tcg);
    let hung = "a boot with kvm failed (the guest did not answer within 6 s); trying tcg";
    assert_eq!((notes, machine.starts()), (vec![hung.to_string()], vec!["kvm".into(), "tcg".into()]));
    machine.end(false);
    machine.leaves_no_process();
}

#[test]
fn memory_that_cannot_be_woken_is_a_boot_with_its_reason() {
    let mut machine = Machine::new();
    ready(&mut machine, "");
    machine.sleeps();
    assert_eq!(machine.starts(), ["tcg"]);
    // The control: it wakes.
    assert_eq!(ready(&mut machine, ""), (Accel::Tcg, vec![], true));
    assert_eq!(machine.starts(), ["wake"]);
    machine.boot_deadline_secs = 6;
    for (load, reason) in [
        ("refuse", "QEMU refuses `migrate-incoming`: it is of another machine"),
        ("fail", "the state could not be loaded: a device is missing"),
        ("silent", "the guest did not wake within 6 s"),
    ] {
        machine.sleeps();
        let (_, notes, woken) = ready(&mut machine, &format!("load={load}"));
        let note = format!("the saved memory could not be used, so the sandbox boots: {reason}");
        assert_eq!((notes, woken), (vec![note], false), "{load}");
        assert_eq!(machine.starts(), ["wake", "tcg"], "{load}");
        for file in ["memory.json", "memory.ram", "memory.state"] {
            assert!(!machine.file(file).exists(), "{load}: {file} is still there");
        }
    }
    machine.end(false);
    machine.leaves_no_process();
}
