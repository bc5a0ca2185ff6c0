//! Secrets with their values: what goes where, looked up once for each connection.

use std::sync::Arc;

use sandbox_model::{CREDENTIAL_HEADERS, SecretSpec, SecretValues};

use super::forms::{in_json, in_query};
use super::mask::masks;
use super::rewrite::Words;
use crate::secrets::SecretError;

/// All secrets of a sandbox, with the values of one moment.
#[derive(Debug)]
pub(super) struct Table {
    secrets: Vec<SecretSpec>,
    values: SecretValues,
    masks: Option<Words>,
}

/// What of a [`Table`] is about one host.
#[derive(Debug)]
pub(super) struct HostTable {
    /// The secrets that may go there.
    pub given: Vec<Given>,
    /// Stand-ins that may not, with their secrets' names.
    pub kept: Vec<(String, String)>,
    /// What is put in bodies: of forms and texts, and of JSON.
    pub body: Option<Words>,
    pub json: Option<Words>,
    /// What the guest must not see in answers.
    pub masks: Option<Words>,
}

/// A secret for a host.
#[derive(Debug)]
pub(super) struct Given {
    pub placeholder: String,
    pub value: sandbox_model::SecretValue,
    /// Field names in lower case; `None` is every field.
    pub fields: Option<Vec<String>>,
    pub query: bool,
    /// The guest's own fields of these names are left out: the definition names them for this secret.
    pub owns_fields: bool,
}

impl Table {
    pub fn new(secrets: &[SecretSpec], values: &SecretValues) -> Result<Self, SecretError> {
        for secret in secrets {
            let value = values.get(&secret.name);
            let value = value.ok_or_else(|| SecretError::NoValue { name: secret.name.clone() })?;
            // A field of a request is a line.
            if value.reveal().contains(['\r', '\n', '\0']) {
                let problem = "its value has a line break or a zero byte in it".to_string();
                return Err(SecretError::Invalid { name: secret.name.clone(), problem });
            }
        }
        let masks = Words::new(masks(values.values().map(sandbox_model::SecretValue::reveal)));
        Ok(Self { secrets: secrets.to_vec(), values: values.clone(), masks })
    }

    /// The same secrets with other values; the first that is of none of them, or cannot be used.
    pub fn with(&self, changed: &SecretValues) -> (Self, Vec<SecretError>) {
        let (mut values, mut problems) = (self.values.clone(), Vec::new());
        for (name, value) in changed {
            let known = self.secrets.iter().find(|secret| secret.name == *name);
            let one = known.map(|secret| {
                Self::new(std::slice::from_ref(secret), &[(name.clone(), value.clone())].into())
            });
            match one {
                None => problems.push(SecretError::Unknown { name: name.clone() }),
                Some(Err(problem)) => problems.push(problem),
                Some(Ok(_)) => drop(values.insert(name.clone(), value.clone())),
            }
        }
        // A value that is no longer put in may still be on its way back.
        let former = self.values.values().chain(values.values()).map(sandbox_model::SecretValue::reveal);
        let masks = Words::new(masks(former));
        (Self { secrets: self.secrets.clone(), values, masks }, problems)
    }

    pub fn of_host(self: &Arc<Self>, name: &str, port: u16) -> HostTable {
        let (mut for_it, others): (Vec<_>, Vec<_>) =
            self.secrets.iter().partition(|secret| may_go(secret, name, port));
        // One stand-in may be the beginning of another.
        for_it.sort_by_key(|secret| std::cmp::Reverse(secret.name.len()));
        let given: Vec<_> = for_it
            .iter()
            .filter_map(|secret| {
                let every = secret.headers.iter().any(|field| field == "*");
                Some(Given {
                    placeholder: secret.placeholder(),
                    value: self.values.get(&secret.name)?.clone(),
                    fields: (!every).then(|| secret.headers.clone()),
                    query: secret.query,
                    owns_fields: !every && !secret.hosts.is_empty() && !is_default(&secret.headers),
                })
            })
            .collect();
        let in_bodies: Vec<_> =
            for_it.iter().zip(&given).filter(|(secret, _)| secret.body).map(|(_, given)| given).collect();
        let words = |form: fn(&str) -> String| {
            let pairs = in_bodies.iter().flat_map(|given| {
                let (placeholder, value) = (&given.placeholder, given.value.reveal());
                [
                    (placeholder.clone().into_bytes(), form(value).into_bytes()),
                    (in_query(placeholder).into_bytes(), in_query(value).into_bytes()),
                ]
            });
            Words::new(pairs.collect())
        };
        HostTable {
            body: words(str::to_string),
            json: words(in_json),
            kept: others.into_iter().map(|secret| (secret.placeholder(), secret.name.clone())).collect(),
            // What a host was never given it cannot tell.
            masks: self.masks.clone().filter(|_| !given.is_empty()),
            given,
        }
    }
}

fn is_default(fields: &[String]) -> bool {
    fields.len() == CREDENTIAL_HEADERS.len()
        && CREDENTIAL_HEADERS.iter().all(|name| fields.iter().any(|field| field == name))
}

fn may_go(secret: &SecretSpec, name: &str, port: u16) -> bool {
    secret.hosts.is_empty()
        || secret.hosts.iter().any(|host| {
            let below = host.below
                && name.strip_suffix(host.name.as_str()).is_some_and(|before| before.ends_with('.'));
            (name == host.name || below) && port == host.port.unwrap_or(443)
        })
}

#[cfg(test)]
mod tests {
    use sandbox_model::SecretValue;

    use super::*;

    fn secret(hosts: &[&str], headers: &[&str]) -> SecretSpec {
        SecretSpec {
            name: "API_KEY".into(),
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            headers: headers.iter().map(ToString::to_string).collect(),
            query: false,
            body: false,
            fingerprint: String::new(),
        }
    }

    fn values(value: &str) -> SecretValues {
        [("API_KEY".to_string(), SecretValue::new(value.into()))].into()
    }

    #[test]
    fn a_secret_goes_to_its_hosts_at_their_ports() {
        let secret = secret(&["api.example.com", "*.example.org:8443"], &["authorization"]);
        for (name, port, may) in [
            ("api.example.com", 443, true),
            ("api.example.com", 8443, false),
            ("x.api.example.com", 443, false),
            ("xapi.example.com", 443, false),
            ("example.org", 8443, true),
            ("a.b.example.org", 8443, true),
            ("a.example.org", 443, false),
            ("badexample.org", 8443, false),
        ] {
            assert_eq!(may_go(&secret, name, port), may, "{name}:{port}");
        }
    }

    #[test]
    fn fields_that_a_definition_names_belong_to_its_secret() {
        let owns = |hosts: &[&str], headers: &[&str]| {
            let table = Table::new(&[secret(hosts, headers)], &values("sk-1234567890")).unwrap();
            Arc::new(table).of_host("api.example.com", 443).given[0].owns_fields
        };
        assert!(owns(&["api.example.com"], &["x-api-key"]));
        assert!(!owns(&["api.example.com"], &CREDENTIAL_HEADERS));
        assert!(!owns(&["api.example.com"], &["*"]));
        assert!(!owns(&[], &["x-api-key"]), "any host is nobody's");
    }

    #[test]
    fn a_value_that_cannot_be_put_in_is_named_and_not_shown() {
        let specs = [secret(&["api.example.com"], &["authorization"])];
        let problem = Table::new(&specs, &values("sk-12\n34567890")).unwrap_err().to_string();
        assert!(problem.contains("API_KEY") && !problem.contains("sk-"), "{problem}");
        let table = Table::new(&specs, &values("sk-1234567890")).unwrap();
        let (changed, problems) = table.with(&values("sk-second-1234567890"));
        assert!(problems.is_empty());
        let host = Arc::new(changed).of_host("api.example.com", 443);
        assert_eq!(host.given[0].value.reveal(), "sk-second-1234567890");
        let masks = host.masks.unwrap();
        assert!(masks.replaced(b"sk-1234567890").is_some(), "the former may still come back");
        let (_, problems) = table.with(&[("OTHER".into(), SecretValue::new("x".into()))].into());
        assert!(matches!(&problems[..], [SecretError::Unknown { name }] if name == "OTHER"));
    }
}
