use std::ffi::OsStr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::world::World;

/// A real terminal with a program in it: a tmux server of its own.
pub struct Screen {
    socket: String,
}

impl Screen {
    pub fn open(world: &World, arguments: &[&str]) -> Self {
        Self::start(world.command("tmux"), World::program(), arguments)
    }

    /// Another program, with the variables and in the folder of `tmux`.
    pub fn start(mut tmux: Command, program: impl AsRef<OsStr>, arguments: &[&str]) -> Self {
        static SCREENS: AtomicU32 = AtomicU32::new(0);
        let number = SCREENS.fetch_add(1, Ordering::Relaxed);
        let socket = format!("agents-sandbox-{}-{number}", std::process::id());
        let status = tmux
            .args(["-L", &socket, "-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40"])
            .arg(program)
            .args(arguments)
            .status()
            .expect("tmux");
        assert!(status.success());
        Self { socket }
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.socket]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// What is seen, and what has scrolled away above it.
    pub fn history(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    /// Types a line, and Enter once it is to be seen.
    pub fn say(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.wait_for("what was typed", Duration::from_mins(2), |text| text.contains(line));
        self.press("Enter");
    }

    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub fn wait_for(&self, what: &str, patience: Duration, reached: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        loop {
            let text = self.text();
            if reached(&text) {
                return;
            }
            assert!(begin.elapsed() < patience, "waited in vain for {what}; the screen shows:\n{text}");
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Closes the window as a person would: the program gets a hang-up.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
