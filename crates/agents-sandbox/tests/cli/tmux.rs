use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::environment::TestEnvironment;

/// A real terminal of 90 columns and 30 lines with a shell in the project's folder.
pub struct Tmux<'a> {
    environment: &'a TestEnvironment,
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    pub fn new(environment: &'a TestEnvironment) -> Self {
        let tmux = Self { environment, socket: environment.path("tmux") };
        let shell = "exec env PS1='shell> ' sh";
        tmux.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "30", "-s", "main", shell]);
        tmux.wait_for("shell> ");
        tmux
    }

    /// One tmux command; its output.
    pub fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words).current_dir(self.environment.project());
        self.environment.seal(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "tmux {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types a line for the shell; `$P` in it is the program.
    pub fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", &text.replace("$P", env!("CARGO_BIN_EXE_agents-sandbox"))]);
        self.key("Enter");
    }

    /// Types a line on a screen without anything else, so that what is waited for next is of this line.
    #[track_caller]
    pub fn fresh(&self, text: &str) {
        // A shell that has only just begun has an empty screen too, and would clear away what is typed after this.
        self.line("echo rea''dy");
        self.wait_for_line("ready");
        self.line("clear");
        self.wait("an empty screen", |screen| matches!(screen.trim(), "shell>" | "$" | "#"));
        self.line(text);
    }

    pub fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// What is seen.
    pub fn screen(&self) -> String {
        // Lines that the terminal had to break are whole again.
        self.tmux(&["capture-pane", "-p", "-J"])
    }

    /// The lines that are seen once one of them is `text`, without the spaces around it.
    #[track_caller]
    pub fn wait_for_line(&self, text: &str) -> String {
        self.wait(&format!("the line {text:?}"), |screen| screen.lines().any(|line| line.trim() == text))
    }

    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// What is seen once the cursor stands behind `question`, below a text that no earlier question had.
    #[track_caller]
    pub fn wait_for_question(&self, text: &str, question: &str) -> String {
        let stands =
            |screen: &str| screen.trim_end().lines().last().is_some_and(|line| line.contains(question));
        self.wait(&format!("{text:?} and {question:?}"), |screen| screen.contains(text) && stands(screen))
    }

    #[track_caller]
    pub fn wait(&self, what: &str, seen: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if seen(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{what} does not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A fact about the terminal, in tmux's words.
    pub fn fact(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", format]).trim().into()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        // It is gone already where the test closed the window.
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
