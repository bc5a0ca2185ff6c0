//! pi and Claude Code, each as its own registry has it today, at work in a virtual machine of its own.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::placeholder::{API_KEY, BEARER, Header, Login};
use crate::screen::Screen;
use crate::world::World;
use crate::{FIRST_PATIENCE, PATIENCE};

/// An agent without a server: it is simply run.
struct Agent {
    name: &'static str,
    binary: &'static str,
    /// On the screen once something can be typed.
    prompt: &'static str,
    /// Where it keeps a login, in the home.
    folder: &'static str,
    /// The variable that it takes its key from.
    variable: &'static str,
    /// How it says it.
    header: Header,
    /// Makes the fake provider the agent's only one.
    configure: fn(&World, &str),
}

#[test]
fn pi_changes_a_file() {
    Agent {
        name: "pi",
        binary: "pi",
        prompt: "fake-1",
        folder: ".pi/agent",
        variable: "PROVIDER_KEY",
        header: BEARER,
        configure: configure_pi,
    }
    .works();
}

#[test]
fn claude_code_changes_a_file() {
    Agent {
        name: "claude-code",
        binary: "claude",
        prompt: "shift+tab to cycle",
        folder: ".claude",
        variable: "ANTHROPIC_API_KEY",
        header: API_KEY,
        configure: configure_claude,
    }
    .works();
}

pub fn configure_pi(world: &World, url: &str) {
    let models = json!({ "providers": { "fake": {
        "baseUrl": format!("{url}/v1"), "api": "openai-completions", "apiKey": "$PROVIDER_KEY",
        "models": [{ "id": "fake-1", "name": "Fake 1", "reasoning": false, "input": ["text"],
            "contextWindow": 100_000, "maxTokens": 4096,
            "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 } }],
    } } });
    world.write(".agents-sandbox/pi/models.json", &models.to_string());
    world.write(".agents-sandbox/pi/settings.json", r#"{"defaultProvider":"fake","defaultModel":"fake-1"}"#);
}

/// That its key may be used (it keeps the end of it, here of the placeholder) and that the folder is trusted, a person
/// says once; here a mapping of `home` does.
fn configure_claude(world: &World, url: &str) {
    let settings = json!({
        "env": { "ANTHROPIC_BASE_URL": url, "ANTHROPIC_MODEL": "fake-1" },
        "permissions": { "allow": ["Bash"] },
    });
    world.write(".agents-sandbox/claude/settings.json", &settings.to_string());
    let known = json!({
        "hasCompletedOnboarding": true,
        "customApiKeyResponses": { "approved": ["SB_ANTHROPIC_API_KEY"], "rejected": [] },
        "projects": { "/workspace": { "hasTrustDialogAccepted": true } },
    });
    world.write(".agents-sandbox/known.json", &known.to_string());
    world.add_settings("home:\n  .claude.json: known.json\n");
}

impl Agent {
    fn works(&self) {
        let mut world = World::new(self.name);
        let login = Login::new(&mut world, self.variable);
        (self.configure)(&world, &login.url());
        let built = Instant::now();
        world.succeeds(&["build", "--agent", self.name], FIRST_PATIENCE);
        let built = built.elapsed();
        login.lead_there();

        let cold = Instant::now();
        let screen = Screen::open(&world, &["run", "--agent", self.name]);
        screen.wait_for("the prompt", PATIENCE, |text| text.contains(self.prompt));
        let cold = cold.elapsed();
        screen.say(&format!("TOOL:echo made by {0} > {0}.txt", self.name));
        screen.wait_for("an answer after the tool", PATIENCE, |text| text.contains("(after tool)"));
        let made = format!("{}.txt", self.name);
        assert_eq!(world.read(&made), format!("made by {}\n", self.name));
        assert_eq!(world.owner(&made), world.owner("."), "the guest's file belongs to the checkout's owner");
        login.has_worked(&world, self.name, self.header);
        self.has_the_version_that_is_told(&world);
        screen.close();

        // The sandbox still runs: its keeper waits ten seconds for another client.
        let warm = Instant::now();
        let screen = Screen::open(&world, &["run", "--agent", self.name]);
        screen.wait_for("the prompt again", PATIENCE, |text| text.contains(self.prompt));
        note_prompt(self.name, built, cold, warm.elapsed());
        screen.close();
        if self.name == "pi" {
            is_refused_without_the_placeholder(&world, &login);
            self.keeps_a_login(&world);
        }
        world.wait_for("the stop after the last client", PATIENCE, |list| list["status"] == "stopped");
    }
}

impl Agent {
    fn has_the_version_that_is_told(&self, world: &World) {
        let inspected = world.succeeds(&["sandbox", "inspect", "--agent", self.name], PATIENCE);
        let inspected: Value = serde_json::from_str(&inspected).unwrap();
        let said = world.succeeds(&["exec", "--agent", self.name, "--", self.binary, "--version"], PATIENCE);
        // Claude Code adds its name.
        let said = said.split_whitespace().next();
        assert!(said.is_some(), "{inspected:#}");
        assert_eq!(inspected["agent_version"]["installed"].as_str(), said);
    }

    /// A token that a login left in the home outlives the sandbox; nothing of it is on the host.
    fn keeps_a_login(&self, world: &World) {
        let exec = |script: &str| {
            world.succeeds(&["exec", "--agent", self.name, "--", "sh", "-c", script], PATIENCE)
        };
        exec(&format!("umask 077; mkdir -p ~/{0} && echo token > ~/{0}/auth.json", self.folder));
        let name = world.sandbox()["name"].as_str().unwrap().to_string();
        world.succeeds(&["stop", "--agent", self.name], PATIENCE);
        world.succeeds(&["sandbox", "remove", &name], PATIENCE);
        assert!(world.sandbox().is_null(), "it is gone");
        assert_eq!(
            exec(&format!("cat ~/{0}/auth.json; stat -c %a ~/{0}/auth.json", self.folder)),
            "token\n600\n"
        );
    }
}

/// The same agent at the same provider, with another word in the place of the placeholder.
fn is_refused_without_the_placeholder(world: &World, login: &Login) {
    let script = "PROVIDER_KEY=another pi -p hello 2>&1; true";
    let said = world.succeeds(&["exec", "--agent", "pi", "--", "bash", "-lc", script], PATIENCE);
    assert!(said.contains("401"), "{said}");
    assert_eq!(login.provider.keys().last().unwrap()["authorization"], "Bearer another");
}

/// Seconds to the first usable prompt.
pub fn note_prompt(agent: &str, built: Duration, cold: Duration, warm: Duration) {
    let seconds = |time: Duration| time.as_secs_f32();
    note_times(&format!(
        "{agent}: image {:.0} s, prompt cold {:.1} s, warm {:.1} s",
        seconds(built),
        seconds(cold),
        seconds(warm)
    ));
}

/// A line about what took how long, where `scripts/test` finds it.
pub fn note_times(line: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prompts.txt");
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}
