use sandbox_model::AgentName;

use crate::{AgentCommand, ConfigFiles, Install, Launch, OwnFiles, Profile};

pub static PROFILE: Profile = Profile {
    name: AgentName::literal("claude-code"),
    rank: 4,
    binary: "claude",
    install: Install {
        package: "@anthropic-ai/claude-code",
        tag: "latest",
        version_arg: "CLAUDE_CODE_VERSION",
        script: INSTALL,
        needs_node: false,
    },
    image_env: &[("DISABLE_AUTOUPDATER", "1")],
    offline_env: &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")],
    emulation_env: &[],
    provider: &[
        "api.anthropic.com:443",
        "claude.ai:443",
        "console.anthropic.com:443",
        "platform.claude.com:443",
    ],
    config: ConfigFiles {
        host_dir: "claude",
        snippet_prefix: "settings",
        guest_dir: ".claude",
        merged: ".claude/settings.json",
        family: &["settings.json"],
    },
    own: OwnFiles {
        habits: &[
            ".claude/CLAUDE.md",
            ".claude/agents",
            ".claude/commands",
            ".claude/output-styles",
            ".claude/rules",
            ".claude/skills",
        ],
        config: &[".claude/settings.json"],
        never: &[],
        credentials: &[".claude/.credentials.json"],
        credential_env: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    },
    daemon: None,
    command,
};

/// The exact version is asked for, because npm quietly takes an older release of a tag when the newest
/// does not accept the running node.
const INSTALL: &str = r#"version=$(npm view "@anthropic-ai/claude-code@${CLAUDE_CODE_VERSION:-latest}" version | tail -n 1)
test -n "$version" || { echo "claude-code has no version ${CLAUDE_CODE_VERSION:-latest}" >&2; exit 1; }
npm install --global --prefix /opt/agents-sandbox --engine-strict --no-audit --no-fund \
  "@anthropic-ai/claude-code@$version"
"#;

fn command(launch: &Launch<'_>) -> AgentCommand {
    AgentCommand::new(&["claude"], launch.args)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn words_reach_the_agent_byte_for_byte() {
        let args = [OsString::from("-p"), OsString::from_vec(b"a 'b' \"c\" $d\n\xff".to_vec())];
        let command = PROFILE.command(&Launch { guest_dir: "/workspace", password: "", args: &args });
        assert_eq!(command.argv[0], "claude");
        assert_eq!(command.argv[1..], args);
        assert_eq!(command.env, []);
    }
}
