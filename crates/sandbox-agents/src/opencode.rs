use sandbox_model::AgentName;

use crate::command::has_option;
use crate::{AgentCommand, ConfigFiles, DaemonProfile, Install, Launch, Profile};

pub static PROFILE: Profile = Profile {
    name: AgentName::Opencode,
    binary: "opencode",
    install: Install {
        package: "opencode-ai",
        version_arg: "OPENCODE_VERSION",
        script: INSTALL,
        needs_node: false,
    },
    image_env: &[("OPENCODE_DISABLE_AUTOUPDATE", "true"), ("OPENCODE_EXPERIMENTAL_WORKSPACES", "true")],
    offline_env: &[
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
    ],
    // The upper tiers of JavaScriptCore's compiler cost more than they give under emulation.
    emulation_env: &[("BUN_JSC_useDFGJIT", "0"), ("BUN_JSC_useFTLJIT", "0")],
    config: ConfigFiles {
        host_dir: "opencode",
        snippet_prefix: "opencode",
        guest_dir: ".config/opencode",
        merged: ".config/opencode/opencode.jsonc",
        family: &[
            "config.json",
            "opencode.json",
            "opencode.jsonc",
            "opencode.json5",
            "opencode.yaml",
            "opencode.yml",
        ],
    },
    daemon: Some(DaemonProfile {
        args: &["serve", "--hostname", "127.0.0.1", "--port", "4096"],
        password_env: "OPENCODE_SERVER_PASSWORD",
        username: "opencode",
        log: "/tmp/opencode-serve.log",
        health_path: "/global/health",
        session_status: true,
    }),
    command,
};

/// The platform's own package alone. The one that names the agent brings two builds of 177 MiB and links
/// one of them by the CPU of whoever builds the image; the sandbox may have another CPU, so x86-64 takes
/// the build without AVX2.
const INSTALL: &str = r#"case "$(uname -m)" in
  x86_64) package=opencode-linux-x64-baseline ;;
  aarch64) package=opencode-linux-arm64 ;;
  *) echo "opencode has no build for $(uname -m)" >&2; exit 1 ;;
esac
npm install --global --prefix /opt/agents-sandbox --engine-strict --no-audit --no-fund \
  "$package@${OPENCODE_VERSION:-latest}"
mkdir -p /opt/agents-sandbox/bin
ln -sf "../lib/node_modules/$package/bin/opencode" /opt/agents-sandbox/bin/opencode
"#;

const URL: &str = "http://127.0.0.1:4096";

/// Words that are commands of opencode's own. `attach` is one of them: whoever types it says where to.
const SUBCOMMANDS: [&str; 24] = [
    "completion",
    "acp",
    "mcp",
    "attach",
    "debug",
    "providers",
    "auth",
    "agent",
    "upgrade",
    "uninstall",
    "serve",
    "web",
    "models",
    "stats",
    "export",
    "import",
    "github",
    "pr",
    "session",
    "plugin",
    "plug",
    "db",
    "generate",
    "help",
];

/// How the user's words become a command line:
///
/// | first word | command |
/// |---|---|
/// | none, an option, or anything else | `opencode attach URL --dir DIR` and the words |
/// | `run` | `opencode run --attach URL --dir DIR` and the other words |
/// | another subcommand of opencode | `opencode` and the words |
///
/// A `--dir` or `--attach` of the user's own replaces ours: opencode joins two of them to one string.
fn command(launch: &Launch<'_>) -> AgentCommand {
    let first = launch.args.first().and_then(|word| word.to_str());
    let mut command = match first {
        Some("run") => {
            let rest = &launch.args[1..];
            let mut words = vec!["opencode", "run"];
            if !has_option(rest, "--attach") {
                words.extend(["--attach", URL]);
            }
            if !has_option(rest, "--dir") {
                words.extend(["--dir", launch.guest_dir]);
            }
            AgentCommand::new(&words, rest)
        }
        Some(word) if SUBCOMMANDS.contains(&word) => AgentCommand::new(&["opencode"], launch.args),
        _ => {
            let mut words = vec!["opencode", "attach", URL];
            if !has_option(launch.args, "--dir") {
                words.extend(["--dir", launch.guest_dir]);
            }
            AgentCommand::new(&words, launch.args)
        }
    };
    command.env.push(("OPENCODE_SERVER_PASSWORD".into(), launch.password.into()));
    command
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn words(typed: &[&str]) -> Vec<String> {
        let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
        let command =
            PROFILE.command(&Launch { guest_dir: "/workspace/sub", password: "secret", args: &typed });
        assert_eq!(command.env, [("OPENCODE_SERVER_PASSWORD".to_string(), "secret".to_string())]);
        let argv: Vec<String> = command.argv.into_iter().map(|word| word.into_string().unwrap()).collect();
        assert!(!argv.iter().any(|word| word.contains("secret")));
        argv
    }

    #[test]
    fn no_words_and_options_attach() {
        assert_eq!(words(&[]), ["opencode", "attach", URL, "--dir", "/workspace/sub"]);
        assert_eq!(
            words(&["--session", "ses_1"]),
            ["opencode", "attach", URL, "--dir", "/workspace/sub", "--session", "ses_1"]
        );
        assert_eq!(words(&["--dir=/x"]), ["opencode", "attach", URL, "--dir=/x"]);
    }

    #[test]
    fn run_talks_to_the_running_server_and_keeps_every_word() {
        assert_eq!(
            words(&["run", "fix \"it\"\nnow", "--", "--dir"]),
            ["opencode", "run", "--attach", URL, "--dir", "/workspace/sub", "fix \"it\"\nnow", "--", "--dir"]
        );
        assert_eq!(
            words(&["run", "--dir", "/y", "hi"]),
            ["opencode", "run", "--attach", URL, "--dir", "/y", "hi"]
        );
    }

    #[test]
    fn other_subcommands_are_left_alone() {
        assert_eq!(words(&["models"]), ["opencode", "models"]);
        assert_eq!(words(&["attach", "http://other"]), ["opencode", "attach", "http://other"]);
    }
}
