//! The layers of a Docker engine, and where among the project's own they go.

pub(super) const INSTALL: &str = include_str!("stages/install-docker.sh");

/// In the exec form, so that a shell that the project chose is neither used nor replaced.
pub(super) const LAYERS: &str = "\
# Docker in the sandbox.
USER root
ARG AGENTS_SANDBOX_APT_PROXY
COPY {context}/install-docker.sh /tmp/agents-sandbox-install-docker.sh
RUN [\"/bin/sh\", \"/tmp/agents-sandbox-install-docker.sh\"]
";

/// Comments of a project's Dockerfile in whose place Docker is installed: layers after it may use it, and
/// are the only ones that a change of theirs builds anew. The second is a former name of the first.
const MARKERS: [&str; 2] = ["# agents-sandbox:docker", "# agents-sandbox:dind"];

/// The project's layers with those of Docker (if it is wanted) in place of the first marker, or at the end:
/// there, an engine that the project installs itself is seen.
pub(super) fn place(body: &str, docker: Option<&str>) -> String {
    let own = |text: &str| {
        if text.is_empty() { String::new() } else { format!("# The project's own layers.\n{text}") }
    };
    let Some(docker) = docker else { return own(body) };
    let Some((before, after)) = split(body) else {
        return [own(body), docker.to_string()]
            .iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join("\n\n");
    };
    // What follows runs as whom it ran before.
    let user = user_after(before).map(|user| format!("USER {user}\n")).unwrap_or_default();
    own(&format!("{before}{docker}{user}{after}"))
}

fn split(body: &str) -> Option<(&str, &str)> {
    let mut start = 0;
    for line in body.split_inclusive('\n') {
        let end = start + line.len();
        if MARKERS.contains(&line.trim()) {
            return Some((&body[..start], &body[end..]));
        }
        start = end;
    }
    None
}

/// Whom the last `USER` of some layers names.
fn user_after(layers: &str) -> Option<&str> {
    layers.lines().rev().find_map(|line| {
        let (word, user) = line.trim().split_once(char::is_whitespace)?;
        word.eq_ignore_ascii_case("user").then(|| user.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_comes_last_or_where_the_marker_is() {
        let place = |body: &str| place(body, Some("DOCKER\n"));
        assert_eq!(place(""), "DOCKER\n");
        assert_eq!(place("RUN a"), "# The project's own layers.\nRUN a\n\nDOCKER\n");
        assert_eq!(
            place("RUN a\n  # agents-sandbox:docker\nRUN b\n# agents-sandbox:docker"),
            "# The project's own layers.\nRUN a\nDOCKER\nRUN b\n# agents-sandbox:docker"
        );
        assert_eq!(
            place("USER x\nuser  dev\n# agents-sandbox:dind\nRUN b"),
            "# The project's own layers.\nUSER x\nuser  dev\nDOCKER\nUSER dev\nRUN b"
        );
        assert_eq!(place("RUN echo '# agents-sandbox:docker'").matches("DOCKER").count(), 1);
    }

    #[test]
    fn without_docker_the_layers_are_as_written() {
        assert_eq!(place("", None), "");
        assert_eq!(
            place("RUN a\n# agents-sandbox:docker\nRUN b", None),
            "# The project's own layers.\nRUN a\n# agents-sandbox:docker\nRUN b"
        );
    }
}
