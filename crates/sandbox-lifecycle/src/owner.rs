//! Whose an artifact is, read from its name where there is no label to ask.

use sandbox_model::{AgentName, CheckoutSlug, ImageRef, VolumeName};
use sandbox_state::Stamp;

use crate::Target;

/// Home volumes of earlier versions carried this in front of the same name.
const OLD_VOLUME: &str = "agents-sandbox-home-";
const RUNNER: &str = "agents-sandbox/runner-";

/// The sandbox that a home volume was made for, and when: `<checkout-slug>-<agent>-<timestamp>`, where a
/// second volume of the same second carries `-2` behind it. `None` where the name is none of ours.
pub fn of_volume(name: &VolumeName) -> Option<(Target, i64)> {
    let whole = name.as_str().strip_prefix(OLD_VOLUME).unwrap_or(name.as_str());
    let (mut rest, mut last) = whole.rsplit_once('-')?;
    if !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()) {
        (rest, last) = rest.rsplit_once('-')?;
    }
    let stamp = Stamp::from_name(last)?;
    Some((Target::from_name(&rest.parse().ok()?)?, stamp))
}

/// The checkout that a runner image was made for, and the agent whose newest image it is. `None` for an
/// image that is not a runner of ours.
pub fn of_image(reference: &ImageRef) -> Option<(CheckoutSlug, Option<AgentName>)> {
    let rest = reference.as_str().strip_prefix(RUNNER)?;
    let end = rest.find([':', '@']).unwrap_or(rest.len());
    let checkout = rest[..end].parse().ok()?;
    let agent = rest[end..].strip_prefix(':').and_then(|tag| tag.strip_suffix("-latest")?.parse().ok());
    Some((checkout, agent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_name_their_sandbox() {
        let target = |agent| Target { checkout: "my-claude-4chyvv5c1qh507".parse().unwrap(), agent };
        for (name, agent) in [
            ("my-claude-4chyvv5c1qh507-opencode-20261129T165754", AgentName::OPENCODE),
            ("my-claude-4chyvv5c1qh507-opencode2-20261129T165754", AgentName::literal("opencode2")),
            ("my-claude-4chyvv5c1qh507-claude-code-20261129T165754-12", AgentName::literal("claude-code")),
            ("agents-sandbox-home-my-claude-4chyvv5c1qh507-pi-20261129T165754", AgentName::literal("pi")),
        ] {
            assert_eq!(of_volume(&name.parse().unwrap()), Some((target(agent), 1_795_971_474)), "{name}");
        }
        for name in ["mine", "a-opencode-2026", "a-vim-20261129T165754", "20261129T165754", "a-pi-20261129T1"]
        {
            assert_eq!(of_volume(&name.parse().unwrap()), None, "{name}");
        }
    }

    #[test]
    fn images_name_their_checkout() {
        let of = |text: &str| of_image(&text.parse().unwrap());
        let checkout: CheckoutSlug = "p-4chyvv5c1qh507".parse().unwrap();
        let runner = ImageRef::runner(&checkout, AgentName::literal("claude-code"));
        assert_eq!(of_image(&runner), Some((checkout.clone(), Some(AgentName::literal("claude-code")))));
        for other in ["p-4chyvv5c1qh507:abcdef", "p-4chyvv5c1qh507@sha256:00", "p-4chyvv5c1qh507"] {
            assert_eq!(
                of(&format!("agents-sandbox/runner-{other}")),
                Some((checkout.clone(), None)),
                "{other}"
            );
        }
        assert_eq!(of("debian:trixie"), None);
        assert_eq!(of("agents-sandbox/base:trixie"), None);
    }
}
