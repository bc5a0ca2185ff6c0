use sandbox_model::AgentName;

use crate::{AgentCommand, ConfigFiles, DaemonProfile, Install, Launch, OwnFiles, Profile, WorktreeApi};

pub static PROFILE: Profile = Profile {
    name: AgentName::literal("opencode2"),
    rank: 2,
    binary: "opencode2",
    install: Install {
        package: "@opencode-ai/cli",
        tag: "beta",
        version_arg: "OPENCODE2_VERSION",
        script: INSTALL,
        needs_node: false,
    },
    image_env: &[("OPENCODE_DISABLE_AUTOUPDATE", "true")],
    offline_env: &[("OPENCODE_DISABLE_MODELS_FETCH", "1"), ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")],
    emulation_env: &[("BUN_JSC_useDFGJIT", "0"), ("BUN_JSC_useFTLJIT", "0")],
    provider: &[
        "opencode.ai:443",
        "api.anthropic.com:443",
        "api.openai.com:443",
        "generativelanguage.googleapis.com:443",
        "openrouter.ai:443",
        // A login with a ChatGPT subscription, and its models.
        "auth.openai.com:443",
        "chatgpt.com:443",
    ],
    config: ConfigFiles {
        // Shared with the first opencode, on the host and in the guest.
        host_dir: super::opencode::PROFILE.config.host_dir,
        snippet_prefix: super::opencode::PROFILE.config.snippet_prefix,
        guest_dir: super::opencode::PROFILE.config.guest_dir,
        merged: super::opencode::PROFILE.config.merged,
        family: super::opencode::PROFILE.config.family,
    },
    own: OwnFiles {
        habits: super::opencode::PROFILE.own.habits,
        config: super::opencode::PROFILE.own.config,
        never: super::opencode::PROFILE.own.never,
        credentials: super::opencode::PROFILE.own.credentials,
        credential_env: super::opencode::PROFILE.own.credential_env,
    },
    daemon: Some(DaemonProfile {
        args: &["serve", "--hostname", "127.0.0.1", "--port", "4096"],
        password_env: "OPENCODE_SERVER_PASSWORD",
        username: "opencode",
        log: "/tmp/opencode2-serve.log",
        health_path: "/api/health",
        warm_up: &[],
        session_status: false,
        worktrees: WorktreeApi::Project,
    }),
    command,
};

/// Only a beta channel exists, so that is what no version means.
const INSTALL: &str = r#"version=$(npm view "@opencode-ai/cli@${OPENCODE2_VERSION:-beta}" version | tail -n 1)
test -n "$version" || { echo "@opencode-ai/cli has no version ${OPENCODE2_VERSION:-beta}" >&2; exit 1; }
npm install --global --prefix /opt/agents-sandbox --engine-strict --no-audit --no-fund "@opencode-ai/cli@$version"
"#;

fn command(launch: &Launch<'_>) -> AgentCommand {
    let words = ["opencode2", "--server", "http://127.0.0.1:4096", "--dir", launch.guest_dir];
    let mut command = AgentCommand::new(&words, launch.args);
    command.env.push(("OPENCODE_SERVER_PASSWORD".into(), launch.password.into()));
    command
}
