//! Who reads the memory of a client that knows secrets.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use rustix::thread::{CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities};

use crate::environment::TestEnvironment;

const VALUE: &str = "sk-of-this-very-test-4711";
const SECRETS: &str = "home/config/agents-sandbox/env.secret.yaml";

/// Leaves root the power that every user has over processes of its own, and nothing above it, for this thread
/// and what it starts.
fn without_power_over_processes() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut sets = capabilities(None).unwrap();
    for power in [CapabilitySet::SYS_PTRACE, CapabilitySet::SYS_ADMIN, CapabilitySet::PERFMON] {
        remove_capability_from_bounding_set(power).unwrap();
        for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
            set.remove(power);
        }
    }
    set_capabilities(None, sets).unwrap();
}

/// A process that ends with the test.
struct Held(Child);

impl Held {
    /// A shell that reads its words from a pipe, once it does.
    fn shell(mut command: Command) -> Self {
        command.env("HOST_TOKEN", VALUE).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"echo ready\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    /// Whether the value stands anywhere in what the process has in memory.
    fn has_value(&self) -> std::io::Result<bool> {
        let files = format!("/proc/{}", self.0.id());
        let memory = std::fs::File::open(format!("{files}/mem"))?;
        let maps = std::fs::read_to_string(format!("{files}/maps"))?;
        let regions = maps.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let readable = words.next()?.starts_with('r');
            let number = |text| u64::from_str_radix(text, 16).ok();
            readable.then_some((number(start)?, number(end)?))
        });
        let mut found = false;
        for (start, end) in regions {
            let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
            // The kernel's own pages at the end of it cannot be read.
            let read = memory.read_at(&mut bytes, start).unwrap_or(0);
            found |= memchr::memmem::find(&bytes[..read], VALUE.as_bytes()).is_some();
        }
        Ok(found)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn no_other_process_of_the_user_reads_a_client_that_knows_a_value() {
    without_power_over_processes();
    let environment = TestEnvironment::new();
    let control = Held::shell(Command::new("sh"));
    assert!(control.has_value().unwrap(), "the search finds what is there");
    let clients = [&["exec", "-i", "--", "sh"][..], &["shell"]];
    for words in clients {
        let open = Held::shell(environment.command(words));
        assert!(open.has_value().unwrap(), "without secrets, {words:?} is like any process");
    }

    environment.run(&["stop", "--cold"]).success();
    environment.write(SECRETS, "TOKEN: {from-env: HOST_TOKEN, host: a.example}\n");
    for words in clients {
        let held = Held::shell(environment.command(words));
        assert_eq!(held.has_value().unwrap_err().kind(), ErrorKind::PermissionDenied, "{words:?}");
        let variables = std::fs::read_to_string(format!("/proc/{}/environ", held.0.id()));
        assert_eq!(variables.unwrap_err().kind(), ErrorKind::PermissionDenied, "{words:?}");
    }
}
