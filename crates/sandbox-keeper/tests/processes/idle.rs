//! What holds a sandbox that nobody is attached to.

use std::time::Instant;

use sandbox_keeper::{ClientInfo, LeaseOutcome, SessionKind};
use sandbox_model::Status;
use sandbox_runtime::Runtime;
use sandbox_runtime::fake::Faults;

use crate::world::{World, me, millis};
use crate::{Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("started_and_never_leased_stops", never_leased),
    ("stops_when_the_time_is_over_and_says_when", says_when),
    ("busy_sessions_hold_until_they_wait_for_the_user", busy),
    ("retries_hold_until_there_are_too_many", retries),
    ("busy_sessions_are_asked_about_anew_for_every_idle_time", asked_anew),
    ("stop_on_active_sessions_asks_nobody", stop_on_active),
    ("silence_holds_for_a_bounded_time", silence),
    ("a_sandbox_that_others_stop_is_left", others_stop),
    ("a_sandbox_that_is_removed_is_left", removed),
    ("a_sandbox_that_others_start_anew_is_kept", others_restart),
    ("the_end_of_a_boot_is_no_new_one", unnamed_boot),
];

fn never_leased() -> Outcome {
    let world = World::new(|keeper| keeper.timing.first_lease = millis(500))?;
    let began = Instant::now();
    world.start_keeper()?;
    world.wait_until_over()?;
    assert!(began.elapsed() >= millis(500), "{:?}", began.elapsed());
    assert_eq!(world.status()?, Status::Stopped);
    Ok(())
}

fn says_when() -> Outcome {
    let world = World::new(|keeper| keeper.auto_stop_timeout = millis(1500))?;
    world.start_keeper()?;
    drop(world.lease()?);
    let left = Instant::now();
    world
        .wait_until("it says when it stops", || Ok(world.keeper_status()?.reason.starts_with("stops in ")))?;
    let status = world.keeper_status()?;
    assert_eq!(status.reason, format!("stops in {} s", status.stops_in_secs.unwrap_or(99)));
    assert!(status.stops_in_secs.is_some_and(|secs| (1..=2).contains(&secs)), "{status:?}");
    // A new client calls it off.
    let lease = world.lease()?;
    assert_eq!(world.keeper_status()?.stops_in_secs, None);
    std::thread::sleep(millis(1700).saturating_sub(left.elapsed()));
    assert_eq!(world.status()?, Status::Running);
    drop(lease);
    let left = Instant::now();
    world.wait_until_over()?;
    assert!(left.elapsed() >= millis(1500), "{:?}", left.elapsed());
    for text in ["held by 1 client", "stops in 2 s", "stopping", "over: Stopped(Graceful)"] {
        assert!(world.log().contains(text), "{text:?} is not in\n{}", world.log());
    }
    Ok(())
}

fn held(world: &World, reason: &str) -> Outcome {
    world.wait_until(reason, || Ok(world.keeper_status()?.reason == reason))?;
    // Several time-outs long.
    std::thread::sleep(millis(600));
    assert_eq!(world.keeper_status()?.reason, reason);
    assert_eq!(world.status()?, Status::Running);
    Ok(())
}

fn busy() -> Outcome {
    let world = World::new(|_| {})?;
    world.agent_says(&[SessionKind::Busy, SessionKind::Idle])?;
    drop(world.lease_or_start()?);
    held(&world, "held: 1 busy session")?;
    world.agent_says(&[SessionKind::Busy, SessionKind::Busy])?;
    held(&world, "held: 2 busy sessions")?;
    let asked = Instant::now();
    world.agent_says(&[SessionKind::WaitingForUser])?;
    world.wait_until_over()?;
    assert!(asked.elapsed() >= millis(180), "the time counts from the last work: {:?}", asked.elapsed());
    assert!(world.log().contains("stopping: 1 session waits for the user"), "{}", world.log());
    Ok(())
}

fn retries() -> Outcome {
    let world = World::new(|_| {})?;
    world.agent_says(&[SessionKind::Retry { attempt: 2 }])?;
    drop(world.lease_or_start()?);
    held(&world, "held: 1 retrying session")?;
    world.agent_says(&[SessionKind::Retry { attempt: 3 }])?;
    world.wait_until_over()?;
    assert!(world.log().contains("stopping: 1 session retries in vain"), "{}", world.log());
    Ok(())
}

/// An answer to a question from before a client came must not let the sandbox stop after it left.
fn asked_anew() -> Outcome {
    let world = World::new(|keeper| {
        keeper.auto_stop_timeout = millis(0);
        keeper.timing.agent_patience = millis(10_000);
    })?;
    world.agent_says(&[])?;
    std::fs::write(world.order.agent.with_extension("delay"), "700")?;
    world.start_keeper()?;
    std::thread::sleep(millis(200));
    let lease = world.lease()?;
    world.agent_says(&[SessionKind::Busy])?;
    drop(lease);
    assert_eq!(world.keeper_status()?.reason, "held: the agent is being asked");
    // The old answer comes in half a second: none are busy. The new one follows.
    held(&world, "held: 1 busy session")?;
    world.agent_says(&[])?;
    world.wait_until_over()
}

fn stop_on_active() -> Outcome {
    let world = World::new(|keeper| keeper.auto_stop_on_active_sessions = true)?;
    world.agent_says(&[SessionKind::Busy])?;
    drop(world.lease_or_start()?);
    world.wait_until_over()?;
    assert_eq!(world.status()?, Status::Stopped);
    Ok(())
}

fn silence() -> Outcome {
    let world = World::new(|keeper| {
        keeper.timing.agent_patience = millis(1500);
        keeper.auto_stop_timeout = millis(100);
    })?;
    world.agent_says_text("connection refused")?;
    drop(world.lease_or_start()?);
    let left = Instant::now();
    world.wait_until("it says that the agent is silent", || {
        let reason = world.keeper_status()?.reason;
        Ok(reason.starts_with("held for ")
            && reason.ends_with("the agent does not answer (connection refused)"))
    })?;
    // An answer in between begins the count anew.
    std::thread::sleep(millis(700));
    world.agent_says(&[SessionKind::Busy])?;
    held(&world, "held: 1 busy session")?;
    world.agent_says_text("connection refused")?;
    let silent = Instant::now();
    world.wait_until_over()?;
    assert!(silent.elapsed() >= millis(1400), "{:?} of {:?}", silent.elapsed(), left.elapsed());
    assert!(
        world.log().contains("stopping: the agent does not answer (connection refused)"),
        "{}",
        world.log()
    );
    Ok(())
}

fn others_stop() -> Outcome {
    let world = World::new(|keeper| keeper.auto_stop_timeout = millis(60_000))?;
    let mut lease = world.lease_or_start()?;
    world.runtime.stop(world.name(), millis(1000))?;
    lease.wait_for_end();
    world.wait_until_over()?;
    assert!(world.log().contains("over: NothingToKeep"), "{}", world.log());
    Ok(())
}

fn removed() -> Outcome {
    let world = World::new(|_| {})?;
    let mut lease = world.lease_or_start()?;
    world.runtime.stop(world.name(), millis(1000))?;
    world.runtime.remove(world.name())?;
    lease.wait_for_end();
    world.wait_until("the keeper is gone", || Ok(!sandbox_state::is_locked(&world.files().lock)?))
}

/// Whoever stops it is not known yet: what was asked of this boot counts until it is over.
fn unnamed_boot() -> Outcome {
    let world = World::new(|keeper| keeper.auto_stop_timeout = millis(0))?;
    world.start_keeper()?;
    let keeps = ClientInfo { keep_secs: Some(7200), ..me() };
    let LeaseOutcome::Leased(kept) = sandbox_keeper::lease(&world.files(), keeps)? else {
        return Err("it is stopping".into());
    };
    drop(kept);
    world.faults(&Faults { boot_unnamed: true, ..Faults::default() })?;
    // Many looks long.
    std::thread::sleep(millis(600));
    assert_eq!(world.status()?, Status::Running, "{}", world.log());
    assert!(world.keeper_status()?.reason.starts_with("held: kept for "), "{}", world.log());
    assert!(!world.log().contains("started anew"), "{}", world.log());
    Ok(())
}

fn others_restart() -> Outcome {
    let world = World::new(|keeper| {
        keeper.timing.check_every = millis(1000);
        keeper.timing.ask_every = millis(1000);
    })?;
    let lease = world.lease_or_start()?;
    let keeps = ClientInfo { keep_secs: Some(7200), ..me() };
    let LeaseOutcome::Leased(kept) = sandbox_keeper::lease(&world.files(), keeps)? else {
        return Err("it is stopping".into());
    };
    drop(kept);
    world.runtime.stop(world.name(), millis(1000))?;
    world.runtime.start(world.name())?;
    world.wait_until("it has noticed", || Ok(world.log().contains("the sandbox was started anew")))?;
    assert_eq!(world.keeper_status()?.reason, "held by 1 client");
    assert_eq!(world.log().matches(" watches ").count(), 1);
    // What was asked of the boot that was stopped does not hold this one.
    drop(lease);
    world.wait_until_over()?;
    assert_eq!(world.status()?, Status::Stopped);
    Ok(())
}
