use std::fmt;
use std::path::PathBuf;

use sandbox_model::{Proxies, ProxyUrl, SecretValue};

/// What the host's own clients are told: proxies and package sources. They reach the build as arguments,
/// never the image's environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// `http_proxy`: the proxy for plain HTTP, as an address that may hold a password.
    pub http_proxy: Option<String>,
    /// `https_proxy`: the proxy for everything else.
    pub https_proxy: Option<String>,
    /// `no_proxy`: what is reached directly.
    pub no_proxy: Option<String>,
    /// `npm_config_registry`: the address of npm's packages.
    pub npm_registry: Option<String>,
    /// `PIP_INDEX_URL`: the address of pip's packages.
    pub pip_index_url: Option<String>,
    /// Seconds, as pip takes them.
    pub pip_timeout: Option<String>,
    /// `SSL_CERT_FILE`: where the host's certificates are, when not in the usual places.
    pub ca_bundle: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`: where the engine's short-lived files may go.
    pub runtime_dir: Option<PathBuf>,
}

/// A proxy may have a password.
impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings").finish_non_exhaustive()
    }
}

impl ClientSettings {
    /// Reads the process's environment. Proxies count in lower case first, as curl and apt read them.
    pub fn from_process() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(read: impl Fn(&str) -> Option<String>) -> Self {
        let read =
            |names: [&str; 2]| names.iter().find_map(|name| read(name).filter(|v| !v.trim().is_empty()));
        Self {
            http_proxy: read(["http_proxy", "HTTP_PROXY"]),
            https_proxy: read(["https_proxy", "HTTPS_PROXY"]),
            no_proxy: read(["no_proxy", "NO_PROXY"]),
            npm_registry: read(["npm_config_registry", "NPM_CONFIG_REGISTRY"]),
            pip_index_url: read(["PIP_INDEX_URL", "pip_index_url"]),
            pip_timeout: read(["PIP_DEFAULT_TIMEOUT", "pip_default_timeout"]),
            ca_bundle: read(["SSL_CERT_FILE", "SSL_CERT_FILE"]).map(PathBuf::from),
            runtime_dir: read(["XDG_RUNTIME_DIR", "XDG_RUNTIME_DIR"])
                .map(PathBuf::from)
                .filter(|path| path.is_absolute()),
        }
    }

    /// With these proxies in the place of those that the environment names.
    #[must_use]
    pub fn with_proxies(self, proxies: Option<&Proxies>) -> Self {
        let url = |proxy: &ProxyUrl| proxy.reveal().reveal().to_string();
        let direct = proxies.map(|proxies| proxies.direct.to_string()).filter(|list| !list.is_empty());
        Self {
            http_proxy: proxies.map(|proxies| url(&proxies.plain)),
            https_proxy: proxies.map(|proxies| url(&proxies.other)),
            no_proxy: direct,
            ..self
        }
    }

    const fn proxies(&self) -> [(&'static str, &Option<String>); 6] {
        [
            ("http_proxy", &self.http_proxy),
            ("HTTP_PROXY", &self.http_proxy),
            ("https_proxy", &self.https_proxy),
            ("HTTPS_PROXY", &self.https_proxy),
            ("no_proxy", &self.no_proxy),
            ("NO_PROXY", &self.no_proxy),
        ]
    }

    /// The variables of programs that are to use these proxies and no others.
    pub fn proxy_environment(&self) -> Vec<(&'static str, Option<SecretValue>)> {
        let value = |value: &Option<String>| value.clone().map(SecretValue::new);
        self.proxies().into_iter().map(|(name, text)| (name, value(text))).collect()
    }

    /// The build's arguments. Every engine knows the six proxy names without an `ARG`.
    pub(crate) fn build_args(&self) -> Vec<(String, String)> {
        let proxies = self.proxies();
        let others = [
            ("NPM_CONFIG_REGISTRY", &self.npm_registry),
            ("PIP_INDEX_URL", &self.pip_index_url),
            ("PIP_DEFAULT_TIMEOUT", &self.pip_timeout),
        ];
        proxies
            .into_iter()
            .chain(others)
            .filter_map(|(name, value)| Some((name.to_string(), value.clone()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use sandbox_model::NoProxy;

    use super::*;

    #[test]
    fn only_what_is_set_becomes_an_argument() {
        let settings = ClientSettings::from_variables(|name| match name {
            "HTTPS_PROXY" => Some("http://proxy:3128".into()),
            "PIP_DEFAULT_TIMEOUT" => Some("180".into()),
            "no_proxy" => Some("  ".into()),
            "XDG_RUNTIME_DIR" => Some("relative".into()),
            _ => None,
        });
        let names: Vec<String> = settings.build_args().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["https_proxy", "HTTPS_PROXY", "PIP_DEFAULT_TIMEOUT"]);
        assert_eq!(settings.runtime_dir, None);
    }

    #[test]
    fn the_proxies_that_hold_replace_those_of_the_environment() {
        let here = ClientSettings { no_proxy: Some("old".into()), ..ClientSettings::default() };
        let proxies = Proxies::one("http://me:p%40ss@proxy:3128".parse().unwrap(), NoProxy::lenient(".corp"));
        let args = here.clone().with_proxies(Some(&proxies)).build_args();
        let arg = |name: &str| args.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(arg("http_proxy"), Some("http://me:p%40ss@proxy:3128"));
        assert_eq!((arg("HTTPS_PROXY"), arg("no_proxy")), (arg("http_proxy"), Some("corp")));
        let none = here.with_proxies(None);
        assert_eq!(none.build_args(), []);
        assert!(none.proxy_environment().iter().all(|(_, value)| value.is_none()));
    }
}
