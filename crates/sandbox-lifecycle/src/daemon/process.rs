//! The server as a process of the guest, reached through commands there.

use std::ffi::OsString;

use sandbox_agents::DaemonProfile;
use sandbox_model::ExecSpec;
use sandbox_runtime::Collected;

use crate::command::{SCRIPT_WITHIN, script};
use crate::{Context, Result, Up};

/// The shell's own number is the server's after `exec`. Its output goes to the log, the password stays in
/// the environment, and `dev`'s login environment is the server's.
const START: &str = r#"log=$1; shift; echo $$ >"$log.pid"; exec "$@" >"$log" 2>&1"#;

/// A number that was given to another program meanwhile is not ours. One process, because a user waits for it: the
/// shell's `read` leaves out the zeros between the words.
const LIVES: &str = r#"read -r pid <"$1.pid" || exit 1
read -r words <"/proc/$pid/cmdline"
case $words in *"$2"*) exit 0 ;; esac
exit 1"#;

/// No number at all is a shell that has not come that far: on a busy machine a login shell takes seconds.
const ENDED: &str = r#"[ -e "$1.pid" ] || exit 1
read -r pid <"$1.pid" && ! grep -qa -- "$2" "/proc/$pid/cmdline""#;

const END: &str = r#"read -r pid 2>/dev/null <"$1.pid" && grep -qa -- "$2" "/proc/$pid/cmdline" || { rm -f "$1.pid"; exit 0; }
kill "$pid"; n=0
while [ $n -lt 50 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; n=$((n+1)); done
kill -KILL "$pid" 2>/dev/null; rm -f "$1.pid""#;

/// Lines of the log that an error carries.
const LOG_LINES: &str = "40";

/// The server of one agent in one sandbox, whether it lives or not.
pub struct Process<'a> {
    context: &'a Context<'a>,
    up: &'a Up,
    daemon: &'static DaemonProfile,
}

impl<'a> Process<'a> {
    /// Does nothing yet.
    pub const fn new(context: &'a Context<'a>, up: &'a Up, daemon: &'static DaemonProfile) -> Self {
        Self { context, up, daemon }
    }

    /// Starts it, detached.
    pub fn start(&self, password: &str) -> Result<()> {
        let profile = self.up.profile;
        let mut words: Vec<OsString> = vec![self.daemon.log.into()];
        words.extend(self.daemon.argv(profile.binary));
        let mut spec = ExecSpec::new(script(START, words));
        spec.detach = true;
        spec.env = profile.environment(false, self.up.emulated);
        spec.env.push((self.daemon.password_env.into(), password.into()));
        self.context.runtime.exec(&self.up.name, &spec)?;
        Ok(())
    }

    /// Whether the process that was started last is there; it need not answer.
    pub fn lives(&self) -> Result<bool> {
        Ok(self.run(LIVES)?.status.success())
    }

    /// It was started, and is no more.
    pub fn has_ended(&self) -> Result<bool> {
        Ok(self.run(ENDED)?.status.success())
    }

    /// Ends one that an earlier client left, which may not answer any more. Harmless when there is none.
    pub fn end(&self) -> Result<()> {
        self.run(END)?;
        Ok(())
    }

    /// The last lines of its log, as far as they can be had.
    pub fn log(&self) -> String {
        let spec = ExecSpec::new(["tail", "-n", LOG_LINES, self.daemon.log]);
        self.context
            .runtime
            .exec(&self.up.name, &spec)
            .and_then(|session| session.collect_within("the log of the agent's server", SCRIPT_WITHIN))
            .map(|collected| String::from_utf8_lossy(&collected.stdout).trim_end().to_string())
            .unwrap_or_default()
    }

    fn run(&self, text: &str) -> Result<Collected> {
        let binary = self.up.profile.binary;
        let spec = ExecSpec::new(["sh", "-c", text, "agents-sandbox", self.daemon.log, binary]);
        let session = self.context.runtime.exec(&self.up.name, &spec)?;
        Ok(session.collect_within("a script for the agent's server", SCRIPT_WITHIN)?)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn sh(text: &str, log: &str, name: &str) -> bool {
        let status =
            Command::new("sh").args(["-c", text, "agents-sandbox", log, name]).stderr(Stdio::null()).status();
        status.unwrap().success()
    }

    #[test]
    fn a_server_is_started_seen_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("server.log");
        let name = log.to_str().unwrap();
        assert!(!sh(LIVES, name, "sleep"), "before there was one");
        let words = [name, "sh", "-c", "echo to-log; exec sleep 600"].map(OsString::from).to_vec();
        let argv = script(START, words);
        let mut child = Command::new(&argv[0]).args(&argv[1..]).env("HOME", dir.path()).spawn().unwrap();
        let begin = std::time::Instant::now();
        while !sh(LIVES, name, "sleep") {
            assert!(begin.elapsed().as_secs() < 20);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(!sh(LIVES, name, "another-program"));
        // Another program's number is forgotten, and that program left alone.
        let number = format!("{name}.pid");
        let recorded = std::fs::read_to_string(&number).unwrap();
        assert!(sh(END, name, "another-program"));
        assert!(child.try_wait().unwrap().is_none() && !std::path::Path::new(&number).exists());
        std::fs::write(&number, recorded).unwrap();
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        sh(END, name, "sleep");
        assert!(!reaper.join().unwrap().success());
        assert!(!sh(LIVES, name, "sleep"));
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "to-log\n");
    }
}
