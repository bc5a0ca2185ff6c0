//! The agents there are: one file each in the folder of this name, which `build.rs` lists.

use std::sync::LazyLock;

use sandbox_model::AgentName;

use crate::{Profile, UnknownAgent};

include!(concat!(env!("OUT_DIR"), "/agents.rs"));

macro_rules! profiles {
    ($($module:ident)*) => {
        $(mod $module;)*
        static FOUND: &[&Profile] = &[$(&$module::PROFILE),*];
    };
}
each_agent!(profiles);

static IN_ORDER: LazyLock<Vec<&Profile>> = LazyLock::new(|| {
    let mut profiles = FOUND.to_vec();
    profiles.sort_by_key(|profile| (profile.rank, profile.name));
    profiles
});

/// Every agent, in the order in which people see them.
pub fn profiles() -> &'static [&'static Profile] {
    &IN_ORDER
}

/// Their names, in that order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    profiles().iter().map(|profile| profile.name.as_str())
}

/// The profile of an agent. A record may name one that is none of [`profiles`].
pub fn profile(agent: AgentName) -> Result<&'static Profile, UnknownAgent> {
    named(agent.as_str())
}

/// The profile that a typed word means.
pub fn named(name: &str) -> Result<&'static Profile, UnknownAgent> {
    let found = profiles().iter().find(|profile| profile.name.as_str() == name);
    found.copied().ok_or_else(|| UnknownAgent(name.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_agents_are_the_files_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agents");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: BTreeSet<String> =
            files.map(|file| file.file_stem().unwrap().to_str().unwrap().replace('_', "-")).collect();
        assert_eq!(names().map(String::from).collect::<BTreeSet<_>>(), files);
        assert_eq!(profiles().len(), files.len(), "two profiles have one name");
    }

    #[test]
    fn people_see_the_agents_in_their_order() {
        let first: Vec<&str> = names().take(4).collect();
        assert_eq!(first, ["opencode", "opencode2", "pi", "claude-code"]);
    }

    #[test]
    fn an_agent_without_a_profile_is_named_with_those_that_have_one() {
        for known in profiles() {
            assert!(std::ptr::eq(profile(known.name).unwrap(), *known));
        }
        let error = profile(AgentName::literal("not-made-yet")).unwrap_err().to_string();
        assert!(
            error.starts_with("unknown agent `not-made-yet`; the agents are opencode, opencode2, "),
            "{error}"
        );
    }
}
