//! The proxy that a sandbox was started with. It is no part of its record, for a proxy may have a password; a new one
//! counts from the next start on, also where that wakes it.

use sandbox_state::ProjectState;

use crate::difference::value;
use crate::{Change, Class, UpRequest};

/// Kind of the fingerprint.
const PROXY: &str = "proxy";
/// As the configuration calls it.
pub const SETTING: &str = "network.proxy";

/// As it is shown: without passwords.
fn text(request: &UpRequest) -> String {
    let Some(proxies) = &request.proxies else { return "none".into() };
    let each: Vec<String> = proxies.each().into_iter().map(ToString::to_string).collect();
    let (each, direct) = (each.join(" and "), proxies.direct.to_string());
    if direct.is_empty() { each } else { format!("{each} but for {direct}") }
}

/// Notes what a sandbox is started with, where its runtime uses a proxy at all. Returns whether that is new.
pub fn note(state: &mut ProjectState, request: &UpRequest, used: bool) -> bool {
    let now = used.then(|| text(request));
    let former = match now.clone() {
        Some(now) => state.fingerprints.insert(PROXY.into(), now),
        None => state.fingerprints.remove(PROXY),
    };
    former != now
}

/// What differs from the proxy that a running sandbox was started with, as far as that is known.
pub fn change(state: &ProjectState, request: &UpRequest) -> Option<Change> {
    let difference = value(state.fingerprints.get(PROXY)?, &text(request))?;
    Some(Change { setting: SETTING, class: Class::Live, difference, fixed: false })
}

#[cfg(test)]
mod tests {
    use sandbox_model::{NoProxy, Proxies};

    use super::*;
    use crate::up::spec::tests::request;

    #[test]
    fn another_proxy_is_told_without_its_password() {
        let mut state = ProjectState::default();
        let with = |url: &str, direct: &str| UpRequest {
            proxies: Some(Proxies::one(url.parse().unwrap(), NoProxy::lenient(direct))),
            ..request()
        };
        assert_eq!(change(&state, &request()), None, "nobody noted anything");
        assert!(note(&mut state, &request(), true));
        assert!(!note(&mut state, &request(), true), "as it was");
        assert_eq!(change(&state, &request()), None);
        let one = with("http://me:hunter22@proxy:1", ".corp.example,10.0.0.0/8");
        let said = change(&state, &one).unwrap().to_string();
        assert!(said.starts_with("network.proxy: none → http://") && said.contains("proxy:1"), "{said}");
        assert!(!said.contains("hunter22"), "{said}");
        assert!(note(&mut state, &one, true));
        assert!(!format!("{state:?}").contains("hunter22"));
        assert_eq!(change(&state, &one), None);
        assert!(change(&state, &with("http://me:hunter22@proxy:1", ".corp.example")).is_some());
        assert!(change(&state, &request()).is_some());
        assert!(note(&mut state, &one, false));
        assert!(!note(&mut state, &one, false));
        assert_eq!(change(&state, &request()), None, "a runtime without one");
    }
}
