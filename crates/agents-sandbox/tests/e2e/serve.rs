//! `run --serve-only`: the agent's own client, outside of the sandbox, knows nothing but what is printed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_model::GUEST_WORKSPACE;

use crate::package::opencode;
use crate::provider::Provider;
use crate::screen::Screen;
use crate::world::World;
use crate::{FIRST_PATIENCE, PATIENCE};

struct Served {
    child: Child,
    address: String,
    password: String,
    /// Where the clients are at home.
    home: tempfile::TempDir,
}

impl Served {
    fn start(world: &World) -> Self {
        let mut command = world.command(World::program());
        let command = command.args(["run", "--serve-only"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut value = |key: &str| {
            let line = lines.next().expect("three lines").unwrap();
            line.strip_prefix(key).unwrap_or_else(|| panic!("{line}")).trim().to_string()
        };
        let address = value("address");
        assert_eq!(value("user"), "opencode", "which is what the client says without being told");
        let password = value("password");
        Self { child, address, password, home: tempfile::tempdir().unwrap() }
    }

    /// What makes any command a client's: nothing of the person's own settings, no proxy, the password.
    fn client(&self, mut command: Command, password: &str) -> Command {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.home.path());
        // It unpacks libraries in TMPDIR when it starts, and removes none of them.
        command.env("TMPDIR", self.home.path());
        command.env("TERM", "xterm-256color").env("OPENCODE_SERVER_PASSWORD", password);
        for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
            command.env(format!("OPENCODE_DISABLE_{name}"), "1");
        }
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    /// One turn of a client without a terminal.
    fn say(&self, password: &str, words: &str) -> Output {
        let mut client = Command::new("timeout");
        client.arg("600").arg(opencode());
        client.args(["run", "--attach", &self.address, "--dir", GUEST_WORKSPACE, words]);
        self.client(client, password).output().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shown(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

#[test]
fn opencodes_own_clients_work_in_the_sandbox_from_outside() {
    let (world, provider) = (World::new("serve"), Provider::start());
    world.use_provider(provider.port);
    world.succeeds(&["build"], FIRST_PATIENCE);
    let mut served = Served::start(&world);

    let said = served.say(&served.password, "hello from outside");
    assert!(
        said.status.success() && shown(&said).contains("Hello from the fake provider."),
        "{}",
        shown(&said)
    );
    let said = served.say(&served.password, "TOOL:echo made by $(id -un) in $PWD > made.txt");
    assert!(said.status.success() && shown(&said).contains("(after tool)"), "{}", shown(&said));
    assert_eq!(world.read("made.txt"), "made by dev in /workspace\n");

    let answers = provider.count("text");
    let said = served.say("another", "hello from a stranger");
    assert!(!said.status.success() && !shown(&said).contains("Hello from"), "{}", shown(&said));
    assert_eq!(provider.count("text"), answers, "the stranger's words reached the model");

    let words = ["attach", &served.address, "--dir", GUEST_WORKSPACE];
    let screen = Screen::start(served.client(world.command("tmux"), &served.password), opencode(), &words);
    screen.wait_for("the client's input", PATIENCE, |text| text.contains("ctrl+p commands"));
    screen.say("TOOL:echo made in a window > window.txt");
    screen.wait_for("an answer after the tool", PATIENCE, |text| text.contains("(after tool)"));
    assert_eq!(world.read("window.txt"), "made in a window\n");
    screen.close();

    let pid = Pid::from_raw(served.child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    world.wait_for("the stop after the last client", PATIENCE, |list| list["status"] == "stopped");
}
