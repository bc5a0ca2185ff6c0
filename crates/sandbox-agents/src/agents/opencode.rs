use std::ffi::OsString;

use sandbox_model::AgentName;

use crate::command::has_option;
use crate::{AgentCommand, ConfigFiles, DaemonProfile, Install, Launch, OwnFiles, Profile, WorktreeApi};

pub static PROFILE: Profile = Profile {
    name: AgentName::OPENCODE,
    rank: 1,
    binary: "opencode",
    install: Install {
        package: "opencode-ai",
        tag: "latest",
        version_arg: "OPENCODE_VERSION",
        script: INSTALL,
        needs_node: false,
    },
    image_env: &[("OPENCODE_DISABLE_AUTOUPDATE", "true"), ("OPENCODE_EXPERIMENTAL_WORKSPACES", "true")],
    offline_env: &[
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        // The server fetches a package for plugins, and the first answer waits for it: where nothing
        // answers, npm's retries are 70 seconds of that.
        ("npm_config_fetch_retries", "0"),
    ],
    // The upper tiers of JavaScriptCore's compiler cost more than they give under emulation.
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
    own: OwnFiles {
        habits: &[
            ".config/opencode/AGENTS.md",
            ".config/opencode/agent",
            ".config/opencode/agents",
            ".config/opencode/command",
            ".config/opencode/commands",
            ".config/opencode/mode",
            ".config/opencode/modes",
            ".config/opencode/prompts",
            ".config/opencode/skill",
            ".config/opencode/skills",
            ".config/opencode/themes",
        ],
        config: &[".config/opencode"],
        never: &["package.json", "package-lock.json", "bun.lock", ".gitignore"],
        credentials: &[".local/share/opencode/auth.json", ".local/share/opencode/mcp-auth.json"],
        credential_env: &["OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"],
    },
    daemon: Some(DaemonProfile {
        args: &["serve", "--hostname", "127.0.0.1", "--port", "4096"],
        password_env: "OPENCODE_SERVER_PASSWORD",
        username: "opencode",
        log: "/tmp/opencode-serve.log",
        health_path: "/global/health",
        warm_up: &["/config/providers", "/agent", "/command"],
        session_status: true,
        worktrees: WorktreeApi::Experimental,
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
/// | `run` | `opencode run --attach URL --dir DIR` and the other words; outside git without `--attach` |
/// | another subcommand of opencode | `opencode` and the words |
///
/// A `--dir` or `--attach` of the user's own replaces ours: opencode joins two of them to one string.
fn command(launch: &Launch<'_>) -> AgentCommand {
    let first = launch.args.first().and_then(|word| word.to_str());
    let mut command = match first {
        Some("run") => run(launch, &launch.args[1..]),
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

/// In a folder without git the server of 1.18 does the work and `run --attach` prints nothing of it, so
/// there `run` works by itself. Only the guest can say: the git directory of a worktree may not be there.
const RUN: &str = r#"url=$1 dir=$2; shift 2
if git -C "$dir" rev-parse >/dev/null 2>&1; then exec opencode run --attach "$url" --dir "$dir" "$@"; fi
exec opencode run --dir "$dir" "$@""#;

fn run(launch: &Launch<'_>, rest: &[OsString]) -> AgentCommand {
    match (has_option(rest, "--attach"), has_option(rest, "--dir")) {
        (false, false) => AgentCommand::new(&["sh", "-c", RUN, "opencode", URL, launch.guest_dir], rest),
        (true, false) => AgentCommand::new(&["opencode", "run", "--dir", launch.guest_dir], rest),
        (false, true) => AgentCommand::new(&["opencode", "run", "--attach", URL], rest),
        (true, true) => AgentCommand::new(&["opencode", "run"], rest),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;

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

    /// What `opencode` is called with in `dir`, by a program of that name that prints its words.
    fn called(dir: &Path, args: &[&str]) -> String {
        let bin = tempfile::tempdir().unwrap();
        let stub = bin.path().join("opencode");
        std::fs::write(&stub, "#!/bin/sh\nprintf '%s|' \"$@\"\n").unwrap();
        std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let guest_dir = dir.to_str().unwrap();
        let command = PROFILE.command(&Launch { guest_dir, password: "", args: &args });
        let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
        let output =
            Command::new(&command.argv[0]).args(&command.argv[1..]).env("PATH", path).output().unwrap();
        String::from_utf8(output.stdout).unwrap().replace(guest_dir, "DIR")
    }

    #[test]
    fn run_talks_to_the_running_server_and_keeps_every_word() {
        let dir = tempfile::tempdir().unwrap();
        let args = ["run", "fix \"it\"\nnow", "--", "--dir"];
        assert_eq!(called(dir.path(), &args), "run|--dir|DIR|fix \"it\"\nnow|--|--dir|");
        let made = Command::new("git").args(["init", "--quiet"]).current_dir(dir.path()).status().unwrap();
        assert!(made.success());
        assert_eq!(
            called(dir.path(), &args),
            format!("run|--attach|{URL}|--dir|DIR|fix \"it\"\nnow|--|--dir|")
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
