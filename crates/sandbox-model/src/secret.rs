//! Secrets: what a record says about one, and the values, which no record holds.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::proxy::holds_password;

/// The header fields that carry credentials: where a stand-in is replaced unless the definition says more. A
/// field that servers repeat in their answers (`Origin`, say) would bring the value back into the guest.
pub const CREDENTIAL_HEADERS: [&str; 10] = [
    "authorization",
    "api-key",
    "private-token",
    "proxy-authorization",
    "x-access-token",
    "x-api-key",
    "x-auth-key",
    "x-auth-token",
    "x-goog-api-key",
    "x-subscription-token",
];

/// Where the guest's programs find every certificate that it trusts.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Variables by which programs with certificates of their own find that file.
const TRUST: [&str; 6] = [
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
];

/// A secret as records know it: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SecretSpec {
    /// The guest's variable, which holds [`SecretSpec::placeholder`].
    pub name: String,
    /// To whom the value may go; without any, to every host.
    pub hosts: Vec<SecretHost>,
    /// Header fields in which the stand-in is replaced, in lower case; `*` is every one.
    pub headers: Vec<String>,
    /// Replace it in the query of an address as well.
    pub query: bool,
    /// Replace it in bodies as well.
    pub body: bool,
    /// Another word for another value; nobody can tell the value from it without the user's own key.
    pub fingerprint: String,
}

impl SecretSpec {
    /// What the guest has in the place of the value.
    pub fn placeholder(&self) -> String {
        format!("$MSB_{}", self.name)
    }

    /// Whom it may go to, in words.
    pub fn reach(&self) -> String {
        if self.hosts.is_empty() {
            return "any host".into();
        }
        self.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// The variables that a guest with these secrets has: the stand-ins, and where it finds the certificate of
/// whoever puts in the values.
pub fn secret_environment(secrets: &[SecretSpec]) -> Vec<(String, String)> {
    if secrets.is_empty() {
        return Vec::new();
    }
    let trust = TRUST.map(|name| (name.to_string(), BUNDLE.to_string()));
    let placeholders = secrets.iter().map(|secret| (secret.name.clone(), secret.placeholder()));
    trust.into_iter().chain(placeholders).collect()
}

/// A host that a secret may go to: a name, or `*.name` for the name and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretHost {
    /// In lower case, without `*.` and without a last dot.
    pub name: String,
    /// Also everything below it.
    pub below: bool,
    /// A port beside 443 at which its TLS is looked into.
    pub port: Option<u16>,
}

/// What a host of a secret may be, for whoever wrote something else.
pub const SECRET_HOST_FORMS: &str =
    "a host is a name such as api.example.com, or *.example.com, with :port where it is not 443";

/// Why a text is no host of a secret, as the end of a sentence about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSecretHost(&'static str);

impl FromStr for SecretHost {
    type Err = InvalidSecretHost;

    fn from_str(text: &str) -> Result<Self, InvalidSecretHost> {
        if text.contains("://") || text.contains('/') {
            return Err(InvalidSecretHost("it is an address of a page; write the host's name alone"));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (host, Some(port.ok_or(InvalidSecretHost("its port is not a number from 1 to 65535"))?))
            }
            None => (text, None),
        };
        let (below, name) = match host.strip_prefix("*.").or_else(|| host.strip_prefix('.')) {
            Some(name) => (true, name),
            None => (false, host),
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if name == "*" {
            return Err(InvalidSecretHost("any host has to be allowed with allow-any-host-dangerous: true"));
        }
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        if name.len() > 253 || !name.split('.').all(label) {
            return Err(InvalidSecretHost("it is not a name"));
        }
        // A certificate proves a name; nobody resolves a name whose last part is a number.
        if name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
            return Err(InvalidSecretHost("it is an address, and a certificate proves a name"));
        }
        Ok(Self { name, below, port: port.filter(|port| *port != 443) })
    }
}

impl fmt::Display for SecretHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below { "*." } else { "" };
        write!(f, "{star}{}", self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Serialize for SecretHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One value. It shows itself to nobody, and its memory is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    /// Takes the text over: the buffer that it came in is the one that is wiped.
    pub fn new(value: String) -> Self {
        Self(Zeroizing::new(value))
    }

    /// For whoever puts it in.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// For pipes between our own processes; no record contains one.
impl Serialize for SecretValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.reveal())
    }
}

impl<'de> Deserialize<'de> for SecretValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// The values of a sandbox's secrets, by name.
pub type SecretValues = BTreeMap<String, SecretValue>;

/// A shorter value is a word that many a variable has by chance.
const TELLING: usize = 8;

/// Which of the variables (name, value) hold one of the values, whole or as a part, or a proxy's password: what
/// runs beside a guest is not to inherit them.
pub fn holding<'a>(
    values: &SecretValues,
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> Vec<&'a OsStr> {
    let holds = |text: &OsStr| {
        values.values().map(SecretValue::reveal).any(|value| {
            let (text, value) = (text.as_encoded_bytes(), value.as_bytes());
            let part = value.len() >= TELLING && text.windows(value.len()).any(|window| window == value);
            part || (!value.is_empty() && text == value)
        })
    };
    variables
        .into_iter()
        .filter(|(name, text)| holds(text) || holds_password(name, text))
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_hold_a_value_are_found() {
        let values = [("A", "sk-1234567890"), ("B", "short"), ("C", "")]
            .map(|(name, value)| (name.into(), SecretValue::new(value.into())));
        let variables = [
            ("TOKEN", "sk-1234567890"),
            ("URL", "https://x:sk-1234567890@host/"),
            ("PIN", "short"),
            ("WORDS", "a short text"),
            ("EMPTY", ""),
        ];
        let variables = variables.map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
        assert_eq!(holding(&values.into(), variables), ["TOKEN", "URL", "PIN"]);
    }

    #[test]
    fn hosts_are_names() {
        for (text, shown) in [
            ("api.example.com", "api.example.com"),
            ("API.Example.com.", "api.example.com"),
            ("*.example.com", "*.example.com"),
            (".example.com", "*.example.com"),
            ("api.example.com:443", "api.example.com"),
            ("api.example.com:8443", "api.example.com:8443"),
            ("intranet", "intranet"),
        ] {
            let host: SecretHost = text.parse().unwrap();
            assert_eq!(host.to_string(), shown, "{text}");
            assert_eq!(shown.parse(), Ok(host), "{text}");
        }
        for text in
            ["", "*", "https://x.example", "x.example/a", "10.0.0.1", "[::1]", "::1", "a b", "a..b", "x:0"]
        {
            assert!(text.parse::<SecretHost>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_does_not_show_itself() {
        let values = SecretValues::from([("A".into(), SecretValue::new("hunter2".into()))]);
        assert!(!format!("{values:?}").contains("hunter2"));
    }

    #[test]
    fn a_guest_without_secrets_has_no_variable_for_them() {
        assert_eq!(secret_environment(&[]), []);
        let secret = SecretSpec {
            name: "TOKEN".into(),
            hosts: vec!["api.example.com".parse().unwrap()],
            headers: vec!["authorization".into()],
            query: false,
            body: false,
            fingerprint: "f".into(),
        };
        let variables = secret_environment(&[secret]);
        assert!(variables.contains(&("TOKEN".into(), "$MSB_TOKEN".into())));
        assert!(variables.iter().any(|(name, path)| name == "NODE_EXTRA_CA_CERTS" && path == BUNDLE));
    }
}
