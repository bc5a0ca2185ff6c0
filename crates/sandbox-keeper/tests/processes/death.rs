//! Clients and keepers that come, go and die.

use std::io::Write;
use std::process::Command;

use sandbox_keeper::{ClientError, LeaseOutcome, Ready, lease, spawn, status};
use sandbox_model::Status;
use sandbox_runtime::Runtime;
use sandbox_runtime::fake::Faults;
use sandbox_state::{connect_socket, is_locked};

use crate::world::{World, me, millis};
use crate::{Outcome, Test, role};

pub(crate) const TESTS: &[Test] = &[
    ("a_killed_client_holds_nothing", killed_client),
    ("a_killed_keeper_is_replaced", killed_keeper),
    ("twenty_clients_at_once_have_one_keeper", twenty),
    ("a_second_keeper_leaves_quietly", second_keeper),
    ("a_keeper_has_no_terminal_and_little_memory", background),
    ("strangers_hold_nothing", strangers),
    ("a_client_that_comes_too_late_waits_and_starts_anew", too_late),
    ("a_keeper_that_cannot_start_says_why", cannot_start),
    ("a_stop_that_fails_is_told", stop_fails),
];

fn kill(pid: u32) -> Outcome {
    let done = Command::new("kill").args(["-9", &pid.to_string()]).status()?;
    if done.success() { Ok(()) } else { Err("kill failed".into()) }
}

fn killed_client() -> Outcome {
    let world = World::new(|_| {})?;
    world.start_keeper()?;
    let mut client = world.client()?;
    assert_eq!(client.says()?, "leased");
    assert_eq!(world.keeper_status()?.reason, "held by 1 client");
    let second = world.lease()?;
    assert_eq!(second.other_clients(), 1);
    let held = world.keeper_status()?;
    assert_eq!(held.reason, "held by 2 clients");
    assert_eq!(held.clients.len(), 2);
    // Longer than the time-out: they do hold it.
    std::thread::sleep(millis(600));
    assert_eq!(world.status()?, Status::Running);
    client.kill()?;
    world.wait_until("one lease is gone", || Ok(world.keeper_status()?.clients.len() == 1))?;
    drop(second);
    world.wait_until_over()?;
    assert_eq!(world.status()?, Status::Stopped);
    assert!(world.log().contains("over: Stopped(Graceful)"), "{}", world.log());
    Ok(())
}

fn killed_keeper() -> Outcome {
    let world = World::new(|_| {})?;
    world.start_keeper()?;
    let mut old = world.lease()?;
    kill(world.keeper_pid()?)?;
    old.wait_for_end();
    assert_eq!(world.status()?, Status::Running, "the sandbox does not die with its keeper");
    world.wait_until("the lock is free", || Ok(!is_locked(&world.files().lock)?))?;
    assert!(matches!(lease(&world.files(), me())?, LeaseOutcome::NoKeeper));
    assert_eq!(status(&world.files())?, None);
    let new = world.lease_or_start()?;
    assert_eq!(new.other_clients(), 0);
    drop(new);
    world.wait_until_over()
}

fn twenty() -> Outcome {
    let world = World::new(|_| {})?;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(world.client()?);
    }
    for client in &mut clients {
        assert_eq!(client.says()?, "leased");
    }
    assert_eq!(world.keeper_status()?.reason, "held by 20 clients");
    assert_eq!(world.log().matches(" watches ").count(), 1, "{}", world.log());
    for client in &mut clients {
        client.leave()?;
    }
    world.wait_until_over()
}

fn second_keeper() -> Outcome {
    let world = World::new(|_| {})?;
    world.start_keeper()?;
    let lease = world.lease()?;
    assert_eq!(role::start_keeper(&world.order)?, Ready::AlreadyKept);
    assert_eq!(world.keeper_status()?.clients.len(), 1, "the first one goes on");
    drop(lease);
    world.wait_until_over()
}

fn background() -> Outcome {
    let world = World::new(|_| {})?;
    world.start_keeper()?;
    let _lease = world.lease()?;
    let proc = std::path::PathBuf::from(format!("/proc/{}", world.keeper_pid()?));
    let stat = std::fs::read_to_string(proc.join("stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    assert_eq!(fields[3], world.keeper_pid()?.to_string(), "it leads a session of its own");
    assert_eq!(fields[4], "0", "it has no terminal");
    assert_eq!(std::fs::read_link(proc.join("cwd"))?, std::path::Path::new("/"));
    let status = std::fs::read_to_string(proc.join("status"))?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: u64 = kib.trim().trim_end_matches(" kB").parse()?;
    println!("a keeper takes {kib} KiB");
    assert!(kib < 20 * 1024, "{kib} KiB");
    Ok(())
}

fn strangers() -> Outcome {
    let world = World::new(|keeper| {
        keeper.timing.first_lease = millis(800);
        keeper.auto_stop_timeout = millis(800);
    })?;
    world.start_keeper()?;
    let _silent = connect_socket(&world.files().socket)?;
    for junk in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x05\0\0\0{\"a\":", b"\xff\xff\xff\xff", b"\x02\0\0\0{}"] {
        let mut stream = connect_socket(&world.files().socket)?;
        stream.write_all(junk)?;
        assert!(world.keeper_status()?.clients.is_empty());
    }
    // Asking is not holding.
    while let Some(status) = status(&world.files())? {
        assert!(status.clients.is_empty());
        std::thread::sleep(millis(20));
    }
    world.wait_until_over()
}

fn too_late() -> Outcome {
    let world = World::new(|_| {})?;
    world.faults(&Faults { stop_millis: 400, ..Faults::default() })?;
    drop(world.lease_or_start()?);
    world.wait_until("it drains", || Ok(world.status()? == Status::Draining))?;
    assert_eq!(world.keeper_status()?.reason, "stopping");
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        match lease(&world.files(), me())? {
            LeaseOutcome::Draining(draining) => outcomes.push(draining),
            other => return Err(format!("{other:?}").into()),
        }
    }
    let first = outcomes.remove(0);
    let (says, over) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        first.wait();
        let _ = says.send(());
    });
    assert!(over.recv_timeout(millis(20)).is_err(), "it is gone before it has stopped the sandbox");
    for draining in outcomes {
        draining.wait();
        assert_eq!(world.status()?, Status::Stopped, "told that it is over before it is");
    }
    over.recv_timeout(millis(1000))?;
    // At once, with no pause for the old keeper to get out of the way.
    world.faults(&Faults::default())?;
    world.runtime.start(world.name())?;
    drop(world.lease_or_start()?);
    world.wait_until_over()
}

fn cannot_start() -> Outcome {
    let world = World::new(|_| {})?;
    let files = world.files();
    match spawn(Command::new("sh").args(["-c", "echo the reason >&2"]), &world.order, &files) {
        Err(ClientError::NotStarted { log, .. }) => assert!(log.contains("the reason"), "{log}"),
        other => return Err(format!("{other:?}").into()),
    }
    match spawn(&mut Command::new("/no/such/program"), &world.order, &files) {
        Err(ClientError::NotStarted { problem, .. }) => {
            assert!(problem.contains("No such file"), "{problem}");
        }
        other => return Err(format!("{other:?}").into()),
    }
    // A record that cannot be read: the keeper itself says so.
    let record = world.runtime.record_path(world.name());
    let good = std::fs::read(&record)?;
    std::fs::write(&record, "{")?;
    match role::start_keeper(&world.order)? {
        Ready::Failed { problem } => assert!(problem.contains("record.json"), "{problem}"),
        other => return Err(format!("{other:?}").into()),
    }
    std::fs::write(&record, good)?;
    world.runtime.stop(world.name(), millis(1000))?;
    assert_eq!(role::start_keeper(&world.order)?, Ready::NothingToKeep);
    Ok(())
}

fn stop_fails() -> Outcome {
    let world = World::new(|_| {})?;
    world.faults(&Faults { stop_fails: Some("the guest is deaf".into()), ..Faults::default() })?;
    drop(world.lease_or_start()?);
    world.wait_until("the keeper is gone", || Ok(!is_locked(&world.files().lock)?))?;
    assert_eq!(world.status()?, Status::Running);
    assert!(world.log().contains("the guest is deaf"), "{}", world.log());
    Ok(())
}
