//! Chores of this repository that are more than a line of shell: `cargo xtask CHORE`.

// A chore talks to whoever started it, and to nobody else.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench_boot;
mod bench_network;
mod bench_provision;
mod bench_wake;
mod check_rooms;
mod interrupt;
mod lab;
mod rooms;
mod sleep_cycles;
mod window;

use std::process::ExitCode;

const CHORES: &str = "\
chores:
  check-rooms        compare the rooms' real dependencies with the table in ARCHITECTURE.md
  bench boot [RUNS]  time starts, commands, lists on a real sandbox (10 runs)
  bench provision [RUNS]  time copying 1,000 files of configuration into a running sandbox (10 runs)
  bench wake [RUNS [COLD]]  time sleeping and waking with opencode, and the same booted (10 runs, 3)
  bench network [RUNS]  throughput, connections, round trips: the bridge beside QEMU's own NAT (3 runs)
  sleep-cycles [N]   sleep and wake a working sandbox again and again, and look for losses (200)
  bench overhead     our program beside plain msb, inside an emulated machine
  lab [CASE…]        the program and the runtime contract on real microsandbox, inside an emulated machine:
                     the short run; `all`; named cases of the contract; or one machine alone:
                     own, lent, program, network, snapshot, trouble, agent, docker";

/// Each of these boots the machine, which takes half a minute emulated.
const COLD_ROUNDS: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["lab", ..] => lab::run(&arguments[1..]),
        ["check-rooms"] => check_rooms::run(),
        ["bench", "overhead"] => lab::overhead(),
        ["bench", "boot"] => bench_boot::run(10),
        ["bench", "boot", runs] => match runs.parse() {
            Ok(runs @ 1..) => bench_boot::run(runs),
            _ => Err(format!("`{runs}` is not a number of runs; write for example 10")),
        },
        ["bench", "provision"] => bench_provision::run(10),
        ["bench", "provision", runs] => match runs.parse() {
            Ok(runs @ 1..) => bench_provision::run(runs),
            _ => Err(format!("`{runs}` is not a number of runs; write for example 10")),
        },
        ["bench", "wake"] => bench_wake::run(10, COLD_ROUNDS),
        ["bench", "wake", runs] => match runs.parse() {
            Ok(runs @ 1..) => bench_wake::run(runs, COLD_ROUNDS),
            _ => Err(format!("`{runs}` is not a number of runs; write for example 10")),
        },
        ["bench", "wake", runs, cold] => match (runs.parse(), cold.parse()) {
            (Ok(runs @ 1..), Ok(cold)) => bench_wake::run(runs, cold),
            _ => Err(format!("`{runs} {cold}` are not two numbers of runs; write for example 10 3")),
        },
        ["bench", "network"] => bench_network::run(3),
        ["bench", "network", runs] => match runs.parse() {
            Ok(runs @ 1..) => bench_network::run(runs),
            _ => Err(format!("`{runs}` is not a number of runs; write for example 3")),
        },
        ["sleep-cycles"] => sleep_cycles::run(200),
        ["sleep-cycles", cycles] => match cycles.parse() {
            Ok(cycles @ 1..) => sleep_cycles::run(cycles),
            _ => Err(format!("`{cycles}` is not a number of cycles; write for example 20")),
        },
        ["help" | "--help" | "-h"] => {
            println!("{CHORES}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("usage: cargo xtask CHORE\n{CHORES}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("error: {complaint}");
            ExitCode::FAILURE
        }
    }
}
