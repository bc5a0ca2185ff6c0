//! Clients that come at the very moment of the stop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sandbox_keeper::{Ended, LeaseOutcome, NoSessions, lease, run};
use sandbox_model::Status;
use sandbox_runtime::Runtime;
use sandbox_runtime::fake::Faults;

use crate::world::{World, me, millis};
use crate::{Outcome, Test};

pub(crate) const TESTS: &[Test] =
    &[("two_hundred_clients_at_the_moment_of_the_stop", two_hundred), ("restarts_without_end", restarts)];

const CLIENTS: u64 = 200;
const TIMEOUT: u64 = 30;

/// Numbers that spread well, the same ones every time.
struct Spread(u64);

impl Spread {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[derive(Default)]
struct Count {
    leased: AtomicUsize,
    draining: AtomicUsize,
    no_keeper: AtomicUsize,
}

/// Each client either has a sandbox that stays up for as long as it holds its lease, or is told that it
/// stops, and finds it stopped when the wait is over.
fn two_hundred() -> Outcome {
    let count = Count::default();
    let mut spread = Spread(0x9E37_79B9_7F4A_7C15);
    let both = |count: &Count| {
        count.leased.load(Ordering::Relaxed) > 0 && count.draining.load(Ordering::Relaxed) > 0
    };
    for round in 0..100 {
        if round >= 8 && both(&count) {
            println!(
                "{round} rounds: {} leased, {} told to wait, {} found no keeper",
                count.leased.into_inner(),
                count.draining.into_inner(),
                count.no_keeper.into_inner()
            );
            return Ok(());
        }
        // The whole crowd is early or late by chance; within it everyone is a little apart.
        let first = TIMEOUT * 1000 - 5000 + spread.below(8000);
        let delays = (0..CLIENTS).map(|_| Duration::from_micros(first + spread.below(6000))).collect();
        crowd(&count, delays)?;
    }
    Err("in a hundred rounds the stop never fell among the clients".into())
}

fn crowd(count: &Count, delays: Vec<Duration>) -> Outcome {
    let world = World::new(|keeper| {
        keeper.auto_stop_timeout = millis(TIMEOUT);
        keeper.timing.first_lease = millis(0);
    })?;
    world.faults(&Faults { stop_millis: 30, ..Faults::default() })?;
    std::thread::scope(|scope| -> Outcome {
        let (mut said, mut ready) = std::io::pipe()?;
        let keeper = scope.spawn({
            let (config, runtime) = (world.order.keeper.clone(), world.runtime.clone());
            move || run(config, std::sync::Arc::new(runtime), Box::new(NoSessions), &mut ready)
        });
        std::io::Read::read_exact(&mut said, &mut [0])?;
        let start = Instant::now();
        let clients: Vec<_> = delays
            .into_iter()
            .map(|delay| {
                let world = &world;
                scope.spawn(move || {
                    std::thread::sleep(delay.saturating_sub(start.elapsed()));
                    one(world, count)
                })
            })
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        match keeper.join().map_err(|_| "the keeper panicked")?? {
            Ended::Stopped(_) => Ok(()),
            other => Err(format!("the keeper ended with {other:?}").into()),
        }
    })
}

fn one(world: &World, count: &Count) -> Outcome {
    match lease(&world.files(), me())? {
        LeaseOutcome::Leased(lease) => {
            for _ in 0..3 {
                let status = world.status()?;
                if status != Status::Running {
                    return Err(format!("{status} with a lease held\n{}", world.log()).into());
                }
                std::thread::sleep(millis(2));
            }
            drop(lease);
            count.leased.fetch_add(1, Ordering::Relaxed);
        }
        LeaseOutcome::Draining(draining) => {
            draining.wait();
            at_rest(world)?;
            count.draining.fetch_add(1, Ordering::Relaxed);
        }
        LeaseOutcome::NoKeeper => {
            at_rest(world)?;
            count.no_keeper.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn at_rest(world: &World) -> Outcome {
    let status = world.status()?;
    if status.is_at_rest() { Ok(()) } else { Err(format!("{status} when the keeper was gone").into()) }
}

/// What every command does: start what does not run, lease, work, leave. With a time-out of nothing the
/// sandbox stops after each, and the next one starts it again.
fn restarts() -> Outcome {
    let world = World::new(|keeper| keeper.auto_stop_timeout = millis(0))?;
    let boot_lock = std::sync::Mutex::new(());
    let turns = 8;
    std::thread::scope(|scope| -> Outcome {
        let commands: Vec<_> = (0..4_u64)
            .map(|number| {
                let (world, boot_lock) = (&world, &boot_lock);
                scope.spawn(move || -> Outcome {
                    for turn in 0..turns {
                        command(world, boot_lock)?;
                        std::thread::sleep(Duration::from_micros(900 * number * turn));
                    }
                    Ok(())
                })
            })
            .collect();
        for command in commands {
            command.join().map_err(|_| "a command panicked")??;
        }
        Ok(())
    })?;
    world.wait_until_over()
}

fn command(world: &World, boot_lock: &std::sync::Mutex<()>) -> Outcome {
    loop {
        // The quick way, without the lock.
        let mut outcome = lease(&world.files(), me())?;
        if matches!(outcome, LeaseOutcome::NoKeeper) {
            let _booting = boot_lock.lock().map_err(|_| "poisoned")?;
            world.runtime.start(world.name())?;
            let mut start = || crate::role::start_keeper(&world.order);
            outcome = sandbox_keeper::lease_or_start(&world.files(), &me(), &mut start)?;
        }
        match outcome {
            LeaseOutcome::Leased(_lease) => {
                for _ in 0..3 {
                    let status = world.status()?;
                    if status != Status::Running {
                        return Err(format!("{status} with a lease held\n{}", world.log()).into());
                    }
                    std::thread::sleep(millis(1));
                }
                return Ok(());
            }
            LeaseOutcome::Draining(draining) => draining.wait(),
            LeaseOutcome::NoKeeper => {}
        }
    }
}
