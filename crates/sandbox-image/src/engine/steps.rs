use crate::Step;

/// The longest text of a step, in characters; a RUN can have thousands.
const LONGEST: usize = 120;

/// Finds the instruction that an engine announces in a line of its log.
///
/// buildah and podman: `[2/5] STEP 1/3: RUN x` and `STEP 1/3: RUN x`. docker's old builder:
/// `Step 1/3 : RUN x`. BuildKit: `#7 [stage 1/3] RUN x`, and ` > [stage 1/3] RUN x:` above an error.
pub(super) fn parse_step(line: &str) -> Option<Step> {
    if let Some(rest) = line.strip_prefix('#').or_else(|| line.strip_prefix(" > ")) {
        return buildkit(rest);
    }
    let line = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, rest)) => rest,
        None => line,
    };
    let rest = line.strip_prefix("STEP ").or_else(|| line.strip_prefix("Step "))?;
    let (position, text) = rest.split_once(':')?;
    let position = position.trim();
    if !position.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some(step(fraction(position), text))
}

/// The instruction that buildah and podman blame at the end. Their stages run side by side, so the one that
/// was announced last need not be the one that failed.
pub(super) fn parse_blame(line: &str) -> Option<String> {
    let (text, _) = line.strip_prefix("Error: building at STEP \"")?.rsplit_once("\": ")?;
    Some(step(None, text).text)
}

fn buildkit(rest: &str) -> Option<Step> {
    let start = rest.find('[')?;
    // `7 ` in front of the bracket, or nothing.
    if !rest[..start].bytes().all(|b| b.is_ascii_digit() || b == b' ') {
        return None;
    }
    let (inside, text) = rest[start + 1..].split_once("] ")?;
    let position = inside.rsplit(' ').next().and_then(fraction)?;
    Some(step(Some(position), text.trim_end_matches(':')))
}

fn fraction(text: &str) -> Option<(u32, u32)> {
    let (position, count) = text.split_once('/')?;
    Some((position.parse().ok()?, count.parse().ok()?))
}

fn step(position: Option<(u32, u32)>, text: &str) -> Step {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Our own long instructions say first what they do.
    let text = match text.strip_prefix("RUN : \"").and_then(|rest| rest.split_once("\";")) {
        Some((purpose, _)) => purpose.to_string(),
        None => text,
    };
    let short: String = text.chars().take(LONGEST).collect();
    let text = if short.len() < text.len() { format!("{short}…") } else { short };
    Step { position, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_engines_announce_a_step() {
        for (line, position, text) in [
            ("STEP 3/12: RUN set -eu;     apt-get update", Some((3, 12)), "RUN set -eu; apt-get update"),
            ("[2/5] STEP 1/3: FROM base AS node", Some((1, 3)), "FROM base AS node"),
            ("STEP 3/12: RUN : \"install node\"; set -eu; x", Some((3, 12)), "install node"),
            ("STEP 1: FROM scratch", None, "FROM scratch"),
            ("Step 4/9 : COPY a b", Some((4, 9)), "COPY a b"),
            ("#7 [agents-sandbox-base 2/4] RUN set -eu", Some((2, 4)), "RUN set -eu"),
            (" > [agents-sandbox-base 2/4] RUN false:", Some((2, 4)), "RUN false"),
        ] {
            assert_eq!(parse_step(line), Some(Step { position, text: text.into() }), "{line}");
        }
    }

    #[test]
    fn other_lines_are_no_steps() {
        for line in [
            "--> c3fa331ee6f",
            "#5 [internal] load build definition",
            "#7 0.231 [1/2] STEP",
            "Step by step: a guide",
            "[1/2] hello",
            "",
        ] {
            assert_eq!(parse_step(line), None, "{line}");
        }
    }

    #[test]
    fn the_blamed_instruction() {
        let line = "Error: building at STEP \"RUN echo \"a\": \"b\"; exit 41\": exit status 41";
        assert_eq!(parse_blame(line).unwrap(), "RUN echo \"a\": \"b\"; exit 41");
        let ours =
            "Error: building at STEP \"RUN : \"install node\"; set -eu;\": while running: exit status 1";
        assert_eq!(parse_blame(ours).unwrap(), "install node");
        assert_eq!(parse_blame("Error: no such file"), None);
    }

    #[test]
    fn a_long_instruction_is_cut_at_a_character() {
        let step = parse_step(&format!("STEP 1/1: RUN {}", "ä".repeat(500))).unwrap();
        assert_eq!(step.text.chars().count(), LONGEST + 1);
    }
}
