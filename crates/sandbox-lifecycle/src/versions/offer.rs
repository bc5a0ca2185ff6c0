//! What is worth telling the user. Pure.

use sandbox_agents::is_newer;
use sandbox_state::AgentState;

use super::AgentVersions;

/// A newer version, and what there is.
#[derive(Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    pub installed: &'a str,
    pub newest: &'a str,
    /// The user saw a line about it, without being asked.
    pub is_told: bool,
}

/// The newer version, where there is one that the user has not answered to.
pub fn offer(known: &AgentVersions) -> Option<Offer<'_>> {
    let state = &known.state;
    let newest = known.newest.as_deref()?;
    let installed = state.image.as_ref()?.version.as_deref()?;
    let answered = state.offered.as_deref().is_some_and(|offered| !is_newer(newest, offered));
    let is_told = state.told.as_deref().is_some_and(|told| !is_newer(newest, told));
    (would_offer(state) && is_newer(newest, installed) && !answered).then_some(Offer {
        installed,
        newest,
        is_told,
    })
}

/// An agent of the user's own is the user's, and one that the user named stays.
pub fn would_offer(state: &AgentState) -> bool {
    let pinned = state.wanted.as_ref().is_some_and(|wanted| wanted.pinned);
    let ours = state.image.as_ref().is_some_and(|image| !image.users_own && image.version.is_some());
    ours && !pinned
}

#[cfg(test)]
mod tests {
    use sandbox_state::{AgentVersion, ImageAgent};

    use super::*;

    fn known(installed: &str, newest: &str) -> AgentVersions {
        let digest = "a".repeat(64).parse().unwrap();
        let image = ImageAgent { digest, users_own: false, version: Some(installed.into()) };
        AgentVersions {
            state: AgentState { image: Some(image), ..AgentState::default() },
            newest: Some(newest.into()),
        }
    }

    #[test]
    fn only_a_newer_one_is_offered_and_only_once() {
        let mut known = known("1.2.3", "1.3.0");
        let offered = Offer { installed: "1.2.3", newest: "1.3.0", is_told: false };
        assert_eq!(offer(&known), Some(offered));
        known.state.told = Some("1.3.0".into());
        assert!(offer(&known).unwrap().is_told, "a line is no answer");
        known.state.offered = Some("1.3.0".into());
        assert_eq!(offer(&known), None);
        known.newest = Some("1.3.1".into());
        assert!(!offer(&known).unwrap().is_told, "another version");
        known.newest = Some("1.2.3".into());
        assert_eq!(offer(&known), None);
        known.newest = None;
        assert_eq!(offer(&known), None);
    }

    #[test]
    fn what_the_user_chose_stays() {
        let mut pinned = known("1.2.3", "1.3.0");
        pinned.state.wanted = Some(AgentVersion { version: "1.2.3".into(), pinned: true });
        let mut own = known("1.2.3", "1.3.0");
        own.state.image.as_mut().unwrap().users_own = true;
        let mut taken = known("1.2.3", "1.3.0");
        taken.state.wanted = Some(AgentVersion { version: "1.2.3".into(), pinned: false });
        assert_eq!((offer(&pinned), offer(&own)), (None, None));
        assert!(offer(&taken).is_some());
    }
}
