//! One call of `msb`: the private home, no terminal, no input unless there is some, and a deadline.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use sandbox_model::{SecretValue, SecretValues, holding};
use sandbox_runtime::RuntimeError;

use crate::files::Files;
use crate::install::VERSION;
use crate::outlet::PASSWORD;
use crate::patience::Patience;

/// Begins what `msb` says when its question to itself what it can was not answered within its two seconds, as
/// on a very busy machine: it then takes itself for an older version.
const ANSWERED_TOO_LATE: &str = "selected msb runtime does not support";
const BOOT_TRIES: u32 = 5;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// The program and its home.
#[derive(Debug, Clone)]
pub struct Msb {
    program: PathBuf,
    home: PathBuf,
    config: PathBuf,
    /// A variable of each call: the password of the sandbox's outlet.
    password: Option<SecretValue>,
    /// Variables of this process that no call gets.
    hidden: Vec<OsString>,
    pub patience: Patience,
}

impl Msb {
    /// `program` is the verified `msb`; its home is that of `files`, never the user's own.
    pub fn new(program: PathBuf, files: &Files, patience: Patience) -> Self {
        let (home, config) = (files.home.dir.clone(), files.config());
        Self { program, home, config, password: None, hidden: Vec::new(), patience }
    }

    /// The same, for calls that boot a sandbox with these secrets: its machine keeps the variables of the call, and is to
    /// have none of the values. `password` is that of its outlet.
    pub fn for_boot(&self, values: &SecretValues, password: Option<&SecretValue>) -> Self {
        let variables: Vec<_> = std::env::vars_os().collect();
        let pairs = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        let hidden = holding(values, pairs).into_iter().map(OsString::from).collect();
        Self { password: password.cloned(), hidden, ..self.clone() }
    }

    /// A command of the private runtime, in a process group of its own: a Ctrl-C at the user's terminal
    /// must not end a boot half-way.
    pub fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("MSB_HOME", &self.home)
            .env("MSB_CONFIG_PATH", &self.config)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .process_group(0);
        for name in &self.hidden {
            command.env_remove(name);
        }
        if let Some(password) = &self.password {
            command.env(PASSWORD, password.reveal());
        }
        command
    }

    /// Runs to the end; an exit code other than 0 is no error here.
    pub fn try_run(&self, arguments: &[String], deadline: Duration) -> Result<Said, RuntimeError> {
        Call::new(self.spawn(self.command(arguments))?).wait(deadline, arguments)
    }

    /// Boots something; nothing was begun where `msb` did not get its answer in time, and it is asked again.
    pub fn try_boot(&self, arguments: &[String], deadline: Duration) -> Result<Said, RuntimeError> {
        let ends = Instant::now() + deadline;
        let mut said = self.try_run(arguments, deadline)?;
        for _ in 1..BOOT_TRIES {
            // The pinned version can everything that we ask of it.
            if said.code == Some(0) || !said.stderr.contains(ANSWERED_TOO_LATE) {
                break;
            }
            said = self.try_run(arguments, ends.saturating_duration_since(Instant::now()))?;
        }
        Ok(said)
    }

    /// Runs to the end; another exit code than 0 is an error with what `msb` said.
    pub fn run(&self, arguments: &[String], deadline: Duration) -> Result<Vec<u8>, RuntimeError> {
        let said = self.try_run(arguments, deadline)?;
        if said.code == Some(0) { Ok(said.stdout) } else { Err(failed(arguments, &said)) }
    }

    /// Runs with `input` as its standard input. An error of `input` itself is an error of this call, and
    /// ends `msb`; that `msb` stops reading is not. `patience` is how long it may take over one piece of
    /// input, and after the last.
    pub fn feed(
        &self,
        arguments: &[String],
        input: &mut dyn Read,
        patience: Duration,
    ) -> Result<Said, RuntimeError> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        let mut call = Call::new(self.spawn(command)?);
        let copied = call.feed(input, patience);
        if copied.is_err() {
            call.kill();
        }
        let said = call.wait(patience, arguments);
        copied?;
        said
    }

    fn spawn(&self, mut command: Command) -> Result<Child, RuntimeError> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| {
            RuntimeError::MissingProgram {
                program: self.program.display().to_string(),
                problem: error.to_string(),
            }
        })
    }

    /// The verified `msb`, for messages.
    pub fn program(&self) -> &Path {
        &self.program
    }
}

/// A call under way. Both outputs are read from the start, so that neither fills up.
struct Call {
    begun: Instant,
    child: Child,
    stdout: Gathered,
    stderr: Gathered,
}

impl Call {
    fn new(mut child: Child) -> Self {
        let (stdout, stderr) = (gather(child.stdout.take()), gather(child.stderr.take()));
        Self { begun: Instant::now(), child, stdout, stderr }
    }

    fn kill(&self) {
        kill_group(Pid::from_child(&self.child));
    }

    fn feed(&mut self, input: &mut dyn Read, patience: Duration) -> std::io::Result<()> {
        let Some(mut stdin) = self.child.stdin.take() else { return Ok(()) };
        // A pipe that is not read for that long belongs to a call that hangs.
        rustix::io::ioctl_fionbio(&stdin, true)?;
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = input.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            match write_within(&mut stdin, &buffer[..read], patience) {
                // It has made up its mind; its exit tells which way.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                other => other?,
            }
        }
    }

    /// Waits for the end; after the deadline the call is killed.
    fn wait(self, deadline: Duration, arguments: &[String]) -> Result<Said, RuntimeError> {
        let Self { begun, mut child, stdout, stderr } = self;
        let (sender, receiver) = channel();
        let pid = Pid::from_child(&child);
        let waiter = std::thread::spawn(move || sender.send(child.wait()));
        let ended = match receiver.recv_timeout(deadline) {
            Ok(ended) => ended?,
            Err(RecvTimeoutError::Disconnected) => return Err(RuntimeError::other("nobody waits for msb")),
            Err(RecvTimeoutError::Timeout) => {
                // Not yet waited for, so the number is still this child's.
                kill_group(pid);
                let _ = waiter.join();
                return Err(no_answer(arguments, deadline));
            }
        };
        // What it started may have inherited an output; the rest of that is nobody's.
        let rest = Duration::from_secs(2);
        timing(arguments, begun);
        Ok(said(ended, stdout.finish(rest), &stderr.finish(rest)))
    }
}

/// A call leads a group of its own. What it started and has not let go of ends with it: nobody else would.
pub fn kill_group(leader: Pid) {
    // It may have ended by itself.
    let _ = kill_process_group(leader, Signal::KILL);
}

fn verb(arguments: &[String]) -> &str {
    arguments.first().map_or("", String::as_str)
}

/// For whoever wants to know where the time goes.
pub fn timing(arguments: &[String], begun: Instant) {
    tracing::debug!("msb {}: {:.3} s", verb(arguments), begun.elapsed().as_secs_f64());
}

/// The same of a call that goes on: when something first came from it.
pub fn first_word(arguments: &[String], begun: Instant) {
    tracing::debug!("msb {}: its first word after {:.3} s", verb(arguments), begun.elapsed().as_secs_f64());
}

/// The same of what was begun over a link that was there.
pub fn answered(begun: Instant) {
    tracing::debug!("the guest: its answer after {:.3} s", begun.elapsed().as_secs_f64());
}

/// The error of a call that was ended at its deadline.
pub fn no_answer(arguments: &[String], deadline: Duration) -> RuntimeError {
    RuntimeError::NoAnswer { call: format!("msb {}", verb(arguments)), seconds: deadline.as_secs() }
}

fn write_within(stdin: &mut ChildStdin, mut bytes: &[u8], patience: Duration) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match stdin.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut ready = [PollFd::new(stdin, PollFlags::OUT)];
                let limit = Timespec::try_from(patience).map_err(std::io::Error::other)?;
                if poll(&mut ready, Some(&limit))? == 0 {
                    return Err(std::io::Error::new(ErrorKind::TimedOut, "msb does not read its input"));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn said(ended: ExitStatus, stdout: Vec<u8>, stderr: &[u8]) -> Said {
    Said { code: ended.code(), stdout, stderr: String::from_utf8_lossy(stderr).trim().to_string() }
}

struct Gathered {
    bytes: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

fn gather(from: Option<impl Read + Send + 'static>) -> Gathered {
    let bytes = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let thread = from.map(|mut from| {
        let bytes = std::sync::Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut buffer = [0; 1 << 14];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                bytes
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .extend_from_slice(&buffer[..read]);
            }
        })
    });
    Gathered { bytes, thread }
}

impl Gathered {
    fn finish(self, patience: Duration) -> Vec<u8> {
        let ends = Instant::now() + patience;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < ends {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// What `msb` said, as an error: its first line without the word `error`, and its hints.
pub fn failed(arguments: &[String], said: &Said) -> RuntimeError {
    let what = verb(arguments);
    let end = said.code.map_or("a signal".to_string(), |code| format!("code {code}"));
    match problem(&said.stderr) {
        problem if problem.contains("database schema is newer") => {
            RuntimeError::NewerRecords { runtime: "microsandbox", version: VERSION }
        }
        problem if problem.is_empty() => RuntimeError::other(format!("`msb {what}` ended with {end}")),
        problem => RuntimeError::other(format!("`msb {what}` failed: {problem}")),
    }
}

/// The sentence in the error output.
pub fn problem(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let plain = lines.map(|line| line.trim_start_matches("error: ").trim_start_matches("→ "));
    // A hint to run `msb` by hand would meet another home.
    plain.filter(|line| !line.starts_with("run `msb")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use sandbox_state::MsbFiles;

    use super::*;

    const ASK: Duration = Duration::from_mins(1);

    fn shell() -> Msb {
        let files = Files { home: MsbFiles { dir: "/nonexistent/home".into() } };
        Msb::new("/bin/sh".into(), &files, Patience::default())
    }

    fn script(text: &str) -> Vec<String> {
        vec!["-c".into(), text.into()]
    }

    #[test]
    fn the_home_is_private_and_the_input_closed() {
        let said = shell().try_run(&script("cat; echo $MSB_HOME $MSB_CONFIG_PATH; exit 3"), ASK).unwrap();
        assert_eq!(said.stdout, b"/nonexistent/home /nonexistent/home/config.json\n");
        assert_eq!(said.code, Some(3));
    }

    #[test]
    fn a_call_that_hangs_is_ended() {
        let begin = Instant::now();
        let error = shell().try_run(&script("sleep 60"), Duration::from_millis(200)).unwrap_err().to_string();
        assert!(error.contains("did not answer"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_a_call_that_hangs_has_started_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        // Held by whoever lives: neither listens to a polite signal, and both keep the output open.
        let lock = dir.path().join("lock");
        let text = "trap '' TERM HUP INT; (exec 9>$0; flock 9; echo held >&9; sleep 60) & wait";
        let words = [script(text), vec![lock.display().to_string()]].concat();
        let call = Call::new(shell().spawn(shell().command(&words)).unwrap());
        // What it takes until then on a busy machine is no part of what the call may take.
        let begin = Instant::now();
        while std::fs::read_to_string(&lock).unwrap_or_default() != "held\n" {
            assert!(begin.elapsed() < ASK, "it does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        let error = call.wait(Duration::from_secs(1), &words).unwrap_err();
        assert!(matches!(error, RuntimeError::NoAnswer { seconds: 1, .. }), "{error:?}");
        let file = std::fs::File::open(&lock).unwrap();
        let begin = Instant::now();
        while file.try_lock().is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it lives");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_database_of_a_newer_version_is_named() {
        let text = "echo 'error: runtime error: database schema is newer than this msb binary' >&2; exit 1";
        let error = shell().run(&script(text), ASK).unwrap_err();
        assert!(matches!(error, RuntimeError::NewerRecords { .. }), "{error:?}");
    }

    #[test]
    fn a_boot_whose_runtime_answered_too_late_is_asked_for_again() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let text = format!(
            "echo x >> {0}; [ $(wc -l < {0}) -ge 3 ] || {{ echo 'error: {ANSWERED_TOO_LATE} it' >&2; exit 1; }}",
            count.display()
        );
        assert_eq!(shell().try_boot(&script(&text), ASK).unwrap().code, Some(0));
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\nx\nx\n");
        let text = format!("echo x >> {}; echo 'error: no disk' >&2; exit 1", count.display());
        assert_eq!(shell().try_boot(&script(&text), ASK).unwrap().code, Some(1));
        assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 4, "any other failure is one");
    }

    #[test]
    fn an_output_that_a_grandchild_keeps_open_holds_nobody_up() {
        let begin = Instant::now();
        let said = shell().try_run(&script("echo said; sleep 15 &"), ASK).unwrap();
        assert_eq!(said.stdout, b"said\n");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn much_output_and_input_pass() {
        let mut input = std::io::repeat(b'x').take(3_000_000);
        let said = shell().feed(&script("cat"), &mut input, ASK).unwrap();
        assert_eq!(said.stdout.len(), 3_000_000);
        let mut endless = std::io::repeat(b'x');
        let said = shell().feed(&script("echo no >&2; exit 1"), &mut endless, ASK).unwrap();
        assert_eq!((said.code, said.stderr.as_str()), (Some(1), "no"));
    }

    #[test]
    fn a_call_that_takes_no_input_is_ended() {
        let mut endless = std::io::repeat(b'x');
        let patience = Duration::from_millis(300);
        let error = shell().feed(&script("exec sleep 60"), &mut endless, patience).unwrap_err().to_string();
        assert!(error.contains("does not read"), "{error}");
    }

    #[test]
    fn an_input_that_fails_is_the_error() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("broken"))
            }
        }
        let error = shell().feed(&script("cat"), &mut Broken, ASK).unwrap_err().to_string();
        assert_eq!(error, "broken");
    }

    #[test]
    fn hints_for_another_home_are_left_out() {
        let stderr = "error: failed to start \"t1\"\n  → other: sandbox process exited\n  → run `msb logs --source system t1` for full diagnostics";
        assert_eq!(problem(stderr), "failed to start \"t1\"; other: sandbox process exited");
    }
}
