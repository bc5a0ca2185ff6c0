use sandbox_model::AgentName;

use crate::{AgentCommand, ConfigFiles, Install, Launch, OwnFiles, Profile};

pub static PROFILE: Profile = Profile {
    name: AgentName::literal("pi"),
    rank: 3,
    binary: "pi",
    install: Install {
        package: "@earendil-works/pi-coding-agent",
        tag: "latest",
        version_arg: "PI_VERSION",
        script: INSTALL,
        needs_node: true,
    },
    image_env: &[("PI_SKIP_VERSION_CHECK", "1")],
    offline_env: &[("PI_OFFLINE", "1")],
    emulation_env: &[],
    provider: &[
        "api.anthropic.com:443",
        "api.openai.com:443",
        "generativelanguage.googleapis.com:443",
        "openrouter.ai:443",
        // Logins with a subscription: Claude's token, ChatGPT's token and its models.
        "platform.claude.com:443",
        "auth.openai.com:443",
        "chatgpt.com:443",
    ],
    config: ConfigFiles {
        host_dir: "pi",
        snippet_prefix: "settings",
        guest_dir: ".pi/agent",
        merged: ".pi/agent/settings.json",
        family: &["settings.json"],
    },
    own: OwnFiles {
        habits: &[
            ".pi/agent/AGENTS.md",
            ".pi/agent/APPEND_SYSTEM.md",
            ".pi/agent/SYSTEM.md",
            ".pi/agent/prompts",
            ".pi/agent/skills",
            ".pi/agent/themes",
        ],
        config: &[".pi/agent"],
        // Models may carry a key; sessions are other projects' conversations.
        never: &["models.json", "sessions", "bin"],
        credentials: &[".pi/agent/auth.json"],
        credential_env: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"],
    },
    daemon: None,
    command,
};

/// The exact version is asked for, because npm quietly takes an older release of a tag when the newest
/// does not accept the running node.
const INSTALL: &str = r#"version=$(npm view "@earendil-works/pi-coding-agent@${PI_VERSION:-latest}" version | tail -n 1)
test -n "$version" || { echo "pi has no version ${PI_VERSION:-latest}" >&2; exit 1; }
npm install --global --prefix /opt/agents-sandbox --engine-strict --ignore-scripts --no-audit --no-fund \
  "@earendil-works/pi-coding-agent@$version"
"#;

fn command(launch: &Launch<'_>) -> AgentCommand {
    AgentCommand::new(&["pi"], launch.args)
}
