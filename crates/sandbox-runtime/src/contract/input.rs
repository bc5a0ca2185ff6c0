use std::time::{Duration, Instant};

use sandbox_model::{ExecSpec, ExitStatus};
use sha2::{Digest, Sha256};

use super::check::{check, check_eq, fail};
use super::sandbox::{Live, Sandbox, text};
use super::{Case, Harness, Outcome};
use crate::ExecEvent;

pub(super) const CASES: &[Case] = &[
    Case::core("input_ends", input_ends).borrowing(),
    Case::core("input_100_mb_through_cat", through_cat).borrowing(),
    Case::core("input_100_mb_counted_in_the_guest", counted_in_guest).borrowing(),
    Case::core("input_signals_reach_the_command", signals).borrowing(),
    Case::core("slow_reader_blocks_nobody_else", slow_reader).borrowing(),
    Case::core("input_to_a_command_that_does_not_read", not_read).borrowing(),
];

fn input_ends(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let mut command = sandbox.live(&ExecSpec::new(["sh", "-c", "cat; echo end"]))?;
    command.input.write(b"one ")?;
    command.input.write(b"two ")?;
    command.expect("one two ")?;
    command.input.close()?;
    command.input.close()?;
    let done = command.collect()??;
    check_eq!(text(&done.stdout), "one two end\n", "output");
    check_eq!(done.status, ExitStatus::SUCCESS, "status");
    Ok(())
}

/// Bytes that look like nothing in particular, the same ones every time.
struct Noise(u64);

impl Noise {
    fn chunk(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend(self.0.to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

/// Writes so many bytes and closes; the hash of what was written.
fn feed(command: &Live, bulk: usize) -> Outcome<std::thread::JoinHandle<Outcome<String>>> {
    let mut input = command.input.try_clone()?;
    Ok(std::thread::spawn(move || {
        let (mut noise, mut hash, mut left) = (Noise(88_172_645_463_325_252), Sha256::new(), bulk);
        while left > 0 {
            let chunk = noise.chunk(left.min(50_000));
            hash.update(&chunk);
            input.write(&chunk)?;
            left -= chunk.len();
        }
        input.close()?;
        Ok(hex(&hash.finalize()))
    }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn through_cat(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let command = sandbox.live(&ExecSpec::new(["cat"]))?;
    let feeder = feed(&command, harness.bulk())?;
    let done = command.collect()??;
    let Ok(written) = feeder.join() else { fail!("a thread panicked") };
    check_eq!(done.stdout.len(), harness.bulk(), "bytes that came back");
    check_eq!(hex(&Sha256::digest(&done.stdout)), written?, "hash of what came back");
    check_eq!(done.status, ExitStatus::SUCCESS, "status");
    Ok(())
}

fn counted_in_guest(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let command = sandbox.live(&ExecSpec::new(["sha256sum"]))?;
    let feeder = feed(&command, harness.bulk())?;
    let done = command.collect()??;
    let Ok(written) = feeder.join() else { fail!("a thread panicked") };
    check_eq!(text(&done.stdout).split(' ').next(), Some(written?.as_str()), "hash of what went in");
    Ok(())
}

fn signals(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    for signal in [2, 9, 15] {
        let mut command = sandbox.live(&ExecSpec::new(["sh", "-c", "echo ready; exec sleep 1000"]))?;
        command.expect("ready")?;
        command.input.signal(signal)?;
        check_eq!(command.end()??, ExitStatus::Signal(signal), "end by signal {signal}");
    }
    // The whole group hears it, and a command may survive it.
    let script = "trap 'echo caught' USR1; echo ready; sh -c 'trap \"echo below; exit\" USR1; echo set; while :; do sleep 0.1; done'; echo after; exit 3";
    let mut command = sandbox.live(&ExecSpec::new(["sh", "-c", script]))?;
    // A signal before the inner shell has set its trap would end it.
    command.expect("set")?;
    command.input.signal(10)?;
    command.expect("below")?;
    command.expect("after")?;
    check_eq!(command.end()??, ExitStatus::Code(3), "end of a command that survives a signal");
    check!(text(&command.stdout).contains("caught"), "the command itself did not hear it");
    Ok(())
}

fn slow_reader(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let bytes = harness.bulk() / 3;
    let spec = ExecSpec::new(["head", "-c", &bytes.to_string(), "/dev/zero"]);
    let mut slow = sandbox.runtime().exec(sandbox.name(), &spec)?;
    // Time enough to fill every buffer on the way.
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    for round in 0..10 {
        check_eq!(sandbox.sh("echo quick")?, "quick", "command {round} beside one whose output nobody reads");
    }
    check!(began.elapsed() < harness.patience(), "the quick commands took {:?}", began.elapsed());
    let mut seen = 0;
    loop {
        match slow.output.next()? {
            ExecEvent::Stdout(chunk) => seen += chunk.len(),
            ExecEvent::Stderr(chunk) => fail!("stderr: {}", text(&chunk)),
            ExecEvent::Exited(status) => {
                check_eq!(status, ExitStatus::SUCCESS, "status");
                break;
            }
        }
    }
    check_eq!(seen, bytes, "bytes read late");
    Ok(())
}

fn not_read(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let command = sandbox.live(&ExecSpec::new(["sh", "-c", "exec <&-; exit 5"]))?;
    let mut input = command.input.try_clone()?;
    // Whether it is an error is left open; that it ends is not.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let chunk = vec![b'x'; 1 << 16];
        for _ in 0..64 {
            if input.write(&chunk).is_err() {
                break;
            }
        }
        let _ = input.close();
        let _ = sender.send(());
    });
    check_eq!(command.collect()??.status, ExitStatus::Code(5), "status");
    check!(receiver.recv_timeout(harness.patience()).is_ok(), "input to a command that has ended blocks");
    Ok(())
}
