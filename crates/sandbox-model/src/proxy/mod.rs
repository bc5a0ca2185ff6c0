//! The proxy through which connections leave the host.

mod no_proxy;
mod url;

use std::ffi::OsStr;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use no_proxy::{InvalidNoProxy, NO_PROXY_FORMS, NoProxy};
pub use url::{InvalidProxy, PROXY_FORMS, ProxyScheme, ProxyUrl};

/// Which proxy a connection leaves through. It is in memory and in pipes alone: a proxy may have a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Proxies {
    /// For plain HTTP, which is what port 80 is for.
    pub plain: ProxyUrl,
    /// For everything else.
    pub other: ProxyUrl,
    /// What is reached directly.
    pub direct: NoProxy,
}

/// A variable that says something about proxies which nobody can read. It does not show what it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {variable}: {problem}")]
pub struct InvalidVariable {
    /// The name of it, as it is set.
    pub variable: String,
    /// What is wrong with its text, which it does not repeat.
    pub problem: InvalidProxy,
}

impl Proxies {
    /// One proxy for everything.
    pub fn one(proxy: ProxyUrl, direct: NoProxy) -> Self {
        Self { plain: proxy.clone(), other: proxy, direct }
    }

    /// As the variables say: `http_proxy`, `https_proxy` and `all_proxy`, each in lower case first, as curl reads
    /// them. Where only one is set, everything goes through it.
    pub fn of_variables(
        read: impl Fn(&str) -> Option<String>,
        direct: NoProxy,
    ) -> Result<Option<Self>, InvalidVariable> {
        let proxy = |name: &str| {
            let names = [name.to_string(), name.to_ascii_uppercase()];
            let found = names.into_iter().find_map(|name| {
                let text = read(&name)?.trim().to_string();
                (!text.is_empty()).then_some((name, text))
            });
            found
                .map(|(variable, text)| text.parse().map_err(|problem| InvalidVariable { variable, problem }))
                .transpose()
        };
        let (http, https, all) = (proxy("http_proxy")?, proxy("https_proxy")?, proxy("all_proxy")?);
        let first = |list: [&Option<ProxyUrl>; 3]| list.into_iter().find_map(Clone::clone);
        let (plain, other) = (first([&http, &all, &https]), first([&https, &all, &http]));
        Ok(plain.zip(other).map(|(plain, other)| Self { plain, other, direct }))
    }

    /// The proxy for a destination; `None` is to go there directly. A destination may have both a name and an
    /// address; either makes it direct.
    pub fn to(&self, name: Option<&str>, address: Option<IpAddr>, port: u16) -> Option<&ProxyUrl> {
        let direct = self.direct.has(name, address, port);
        (!direct).then_some(if port == 80 { &self.plain } else { &self.other })
    }

    /// Each proxy once.
    pub fn each(&self) -> Vec<&ProxyUrl> {
        if self.plain == self.other { vec![&self.other] } else { vec![&self.other, &self.plain] }
    }
}

/// Whether a variable holds the password of a proxy: it is not for what runs beside a guest.
pub(crate) fn holds_password(name: &OsStr, text: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    let text = text.to_string_lossy();
    let userinfo = || {
        let rest = text.split_once("://").map_or(&*text, |(_, rest)| rest);
        rest.rsplit_once('@').is_some_and(|(userinfo, _)| userinfo.contains(':'))
    };
    name.ends_with("_proxy") && name != "no_proxy" && userinfo()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Option<Proxies>, InvalidVariable> {
        let read = |name: &str| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_string())
        };
        Proxies::of_variables(read, NoProxy::default())
    }

    #[test]
    fn variables_count_in_lower_case_first_and_one_is_enough() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("HTTPS_PROXY", " ")]), Ok(None), "an empty one is none");
        let one = of(&[("HTTPS_PROXY", "http://a:1"), ("https_proxy", "b:2")]).unwrap().unwrap();
        assert_eq!(
            (one.plain.to_string(), one.other.to_string()),
            ("http://b:2".into(), "http://b:2".into())
        );
        assert_eq!(one.each().len(), 1);
        let two = of(&[("HTTP_PROXY", "p:1"), ("ALL_PROXY", "socks5h://s:2")]).unwrap().unwrap();
        assert_eq!((two.plain.host.as_str(), two.other.host.as_str()), ("p", "s"));
        let wrong = of(&[("ALL_PROXY", "ftp://user:hunter22@x:1")]).unwrap_err().to_string();
        assert!(wrong.contains("ALL_PROXY") && !wrong.contains("hunter22"), "{wrong}");
    }

    #[test]
    fn port_80_has_the_proxy_of_plain_http_and_a_direct_name_none() {
        let mut proxies = of(&[("http_proxy", "p:1"), ("https_proxy", "s:2")]).unwrap().unwrap();
        proxies.direct = NoProxy::lenient(".corp.example,10.0.0.0/8");
        assert_eq!(proxies.to(Some("a.example"), None, 80).map(|p| p.port), Some(1));
        assert_eq!(proxies.to(Some("a.example"), None, 22).map(|p| p.port), Some(2));
        assert_eq!(proxies.to(Some("git.corp.example"), None, 443), None);
        assert_eq!(proxies.to(Some("a.example"), "10.1.1.1".parse().ok(), 443), None);
    }

    #[test]
    fn variables_with_a_password_are_known() {
        let holds = |name: &str, text: &str| holds_password(OsStr::new(name), OsStr::new(text));
        assert!(holds("HTTPS_PROXY", "http://user:pw@proxy:3128"));
        assert!(holds("all_proxy", "user:pw@proxy"));
        assert!(!holds("HTTPS_PROXY", "http://proxy:3128"));
        assert!(!holds("HTTPS_PROXY", "http://user@proxy:3128"));
        assert!(!holds("EDITOR", "http://user:pw@proxy"));
    }
}
