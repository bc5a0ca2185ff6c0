//! The text of our stages, and the files they use.

use std::fmt::Write;

use sandbox_model::{AgentRecipe, GUEST_HOME, GUEST_WORKSPACE, labels};

use super::docker;
use super::{BaseKind, CONTEXT_DIR, ComposeError, ComposeInput, ContextFile};
use crate::DEFAULT_BASE;

const BASE_TOOLS: &str = include_str!("stages/base-tools.dockerfile");
const TRUST: &str = include_str!("stages/trust.dockerfile");
const NODE: &str = include_str!("stages/node.dockerfile");
const AGENT: &str = include_str!("stages/agent.dockerfile");
const USER: &str = include_str!("stages/user.dockerfile");
const FINISH: &str = include_str!("stages/finish.dockerfile");
const PROFILE: &str = include_str!("stages/path.sh");

const BASE_STAGE: &str = super::RESERVED_STAGES[0];

/// The certificates that the host trusts beyond its distribution's own, and where programs find them.
const TRUST_ENV: &str = "\
ENV NODE_EXTRA_CA_CERTS=/etc/agents-sandbox/host-ca.crt \\
    SSL_CERT_FILE=/etc/agents-sandbox/ca-bundle.crt \\
    CURL_CA_BUNDLE=/etc/agents-sandbox/ca-bundle.crt \\
    PIP_CERT=/etc/agents-sandbox/ca-bundle.crt \\
    REQUESTS_CA_BUNDLE=/etc/agents-sandbox/ca-bundle.crt
";

pub(super) fn check_recipe(recipe: &AgentRecipe) -> Result<(), ComposeError> {
    let bad = |problem: String| Err(ComposeError::Recipe(problem));
    let name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let word = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'+' | b'-'))
    };
    if !name(recipe.version_arg) {
        return bad(format!("`{}` is not a build argument's name", recipe.version_arg));
    }
    if !word(&recipe.binary) {
        return bad(format!("`{}` is not a program's name", recipe.binary));
    }
    if let Some(version) = recipe.version.as_deref().filter(|version| !word(version)) {
        return bad(format!(
            "`{version}` is not a version; a version has letters, digits, `.`, `_`, `+` and `-`"
        ));
    }
    for (key, value) in &recipe.image_env {
        if !name(key) {
            return bad(format!("`{key}` is not a variable's name"));
        }
        if value.contains(['\n', '\r', '\0']) {
            return bad(format!("the value of {key} has a line break"));
        }
    }
    Ok(())
}

/// A value for `ENV` and `LABEL`, safe from substitution.
fn quoted(value: &str) -> String {
    let mut text = String::from('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '$') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    text
}

/// The image name in `ARG AGENTS_SANDBOX_BASE_IMAGE=`, which the build replaces where it found another.
pub(super) fn base_default(input: &ComposeInput<'_>) -> String {
    input.base.reference().unwrap_or_else(|| DEFAULT_BASE.to_string())
}

pub(super) fn dockerfile(input: &ComposeInput<'_>) -> String {
    let project = input.project;
    let mut text = String::from(
        "# Composed by agents-sandbox from .agents-sandbox/Dockerfile and the agent's recipe.\n",
    );
    if project.base == BaseKind::Managed {
        let _ = writeln!(text, "ARG AGENTS_SANDBOX_BASE_IMAGE={}", base_default(input));
    }
    text.push_str(&project.global_args);

    let trust =
        if input.host_ca.is_empty() { String::new() } else { format!("{}{TRUST_ENV}", fill(TRUST, input)) };
    let earlier = project.earlier_stages.trim_end();
    let mut stage = |content: &str| {
        text.push('\n');
        text.push_str(content.trim_end());
        text.push('\n');
    };
    // A managed base comes before the project's stages, because those may build on it; a custom one after
    // them, because it may be one of them.
    let parent = if project.base == BaseKind::Managed {
        stage(&fill(BASE_TOOLS, input).replace("{trust}\n", &trust));
        if !earlier.is_empty() {
            stage(earlier);
        }
        if project.last_is_stage { &project.last_image } else { BASE_STAGE }
    } else {
        if !earlier.is_empty() {
            stage(earlier);
        }
        let (options, image) = (&project.last_options, &project.last_image);
        stage(&format!("FROM {options}{image} AS {BASE_STAGE}\nUSER root\n{trust}"));
        BASE_STAGE
    };
    stage(&fill(NODE, input).replace("{parent}", parent));
    stage(&fill(AGENT, input));
    stage(&fill(USER, input).replace("{parent}", parent));
    let docker = wants_docker(input).then(|| fill(docker::LAYERS, input));
    let body = docker::place(&project.body, docker.as_deref());
    if !body.is_empty() {
        stage(&body);
    }
    let shell = if project.body_sets_shell { "SHELL [\"/bin/sh\", \"-c\"]\n" } else { "" };
    let mut env = String::new();
    for (key, value) in &input.recipe.image_env {
        let _ = writeln!(env, "ENV {key}={}", quoted(value));
    }
    let check = if input.recipe.needs_node { NODE_CHECK } else { "" };
    stage(
        &fill(FINISH, input)
            .replace("{shell}\n", shell)
            .replace("{env}\n", &env)
            .replace("{node_check}\n", check),
    );
    text
}

const NODE_CHECK: &str = "\
    major=$(node -p 'process.versions.node.split(\".\")[0]' 2>/dev/null || echo 0); \\
    if [ \"$major\" -lt 22 ]; then \\
        echo \"agents-sandbox: the agent needs node 22 or newer, and this image has $(node --version)\" >&2; \\
        exit 1; \\
    fi; \\
";

const fn wants_docker(input: &ComposeInput<'_>) -> bool {
    input.docker || input.project.wants_docker
}

/// Fills in what all stages share.
fn fill(template: &str, input: &ComposeInput<'_>) -> String {
    template
        .replace("{context}", CONTEXT_DIR)
        .replace("{binary}", &input.recipe.binary)
        .replace("{version_arg}", input.recipe.version_arg)
        .replace("{agent}", input.recipe.agent.as_str())
        .replace("{home}", GUEST_HOME)
        .replace("{workspace}", GUEST_WORKSPACE)
        .replace("{label_managed}", labels::MANAGED)
        .replace("{label_agent}", labels::AGENT)
        .replace("{label_base}", labels::BASE)
        .replace("{label_id}", labels::DOCKERFILE_ID)
}

/// The files that our stages copy.
pub(super) fn files(input: &ComposeInput<'_>) -> Vec<ContextFile> {
    let file = |name: &str, content: &str| ContextFile {
        path: format!("{CONTEXT_DIR}/{name}"),
        content: content.as_bytes().to_vec(),
    };
    let mut files = vec![
        file("agents-sandbox-path.sh", PROFILE),
        file("install-agent.sh", &format!("set -eu\n{}\n", input.recipe.install.trim_end())),
    ];
    if wants_docker(input) {
        files.push(file("install-docker.sh", docker::INSTALL));
    }
    for (name, pem) in input.host_ca.files() {
        files.push(file(&format!("ca/{name}"), pem));
    }
    files
}
