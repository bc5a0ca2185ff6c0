//! What an image holds, as its build wrote it down inside.

use sandbox_model::{Digest, ExecSpec, SandboxName};
use sandbox_state::{ImageAgent, ProjectState, SandboxFiles, write_record};

use crate::command::SCRIPT_WITHIN;
use crate::{Context, Result, UpRequest};

/// `tool` or `user`, and for ours the version that npm installed.
const READ: &str = "cat /etc/agents-sandbox/agent-source /etc/agents-sandbox/agent-version 2>/dev/null";

/// Records the agent of the image that was just started, where it is another image than the recorded one.
/// An image that does not say is not recorded.
pub fn record_image(
    context: &Context<'_>,
    request: &UpRequest,
    name: &SandboxName,
    digest: &Digest,
    files: &SandboxFiles,
    state: &mut ProjectState,
) -> Result<()> {
    if state.agent.image.as_ref().is_some_and(|image| image.digest == *digest) {
        return Ok(());
    }
    let spec = ExecSpec::new(["sh", "-c", READ]);
    let read = context.runtime.exec(name, &spec);
    let read =
        read.and_then(|session| session.collect_within("the image's word on its agent", SCRIPT_WITHIN));
    let said = match read {
        Ok(collected) => String::from_utf8_lossy(&collected.stdout).into_owned(),
        Err(error) => {
            context.reporter.verbose(&format!("the agent's version cannot be read: {error}"));
            return Ok(());
        }
    };
    let Some(image) = parse(&said, digest) else { return Ok(()) };
    if image.users_own
        && let Some(pinned) = request.agent_version.as_ref().filter(|wanted| wanted.pinned)
    {
        context.reporter.warning(&format!(
            "the image has a {} of its own, so the version {} that was asked for is not in it",
            request.agent, pinned.version
        ));
    }
    state.agent.image = Some(image);
    Ok(write_record(&files.state(), state)?)
}

/// The guest wrote none of this, but whoever builds on the image can change it: a version is a short word.
fn parse(said: &str, digest: &Digest) -> Option<ImageAgent> {
    let mut lines = said.lines();
    let users_own = match lines.next()? {
        "tool" => false,
        "user" => true,
        _ => return None,
    };
    let sound = |line: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
        !line.is_empty() && line.len() <= 64 && line.chars().all(plain)
    };
    let version = lines.next().filter(sound).map(String::from);
    Some(ImageAgent { digest: digest.clone(), users_own, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_our_build_writes_counts() {
        let digest: Digest = "a".repeat(64).parse().unwrap();
        let agent = |users_own, version: Option<&str>| {
            Some(ImageAgent { digest: digest.clone(), users_own, version: version.map(String::from) })
        };
        assert_eq!(parse("tool\n1.18.33\n", &digest), agent(false, Some("1.18.33")));
        assert_eq!(parse("tool\n", &digest), agent(false, None));
        assert_eq!(parse("user\n", &digest), agent(true, None));
        assert_eq!(parse("tool\n\u{1b}[2J\n", &digest), agent(false, None));
        assert_eq!(parse("", &digest), None);
        assert_eq!(parse("other\n1.0.0\n", &digest), None);
    }
}
