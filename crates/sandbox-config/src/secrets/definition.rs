use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use sandbox_model::{CREDENTIAL_HEADERS, SECRET_HOST_FORMS, SecretHost, SecretValue};

use super::FORMS;
use crate::error::Refusal;
use crate::fields::Fields;
use crate::read::{Folders, boolean, items_of};
use crate::tree::{Node, Tree};

/// Where a secret's value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// It stands in the file.
    Literal(SecretValue),
    /// A variable of the program's own environment.
    Env(String),
    /// A file of the host, absolute.
    File(PathBuf),
    /// What a command prints. One word is a line for the shell.
    Command(Vec<String>),
    /// An entry of the system's keyring, by its attributes.
    Keyring(BTreeMap<String, String>),
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("a value in the file"),
            Self::Env(name) => write!(f, "the variable {name} of your environment"),
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Command(words) => write!(f, "the command `{}`", words.join(" ")),
            Self::Keyring(attributes) => {
                let words: Vec<String> =
                    attributes.iter().map(|(name, value)| format!("{name} {value}")).collect();
                write!(f, "the keyring's entry with {}", words.join(", "))
            }
        }
    }
}

/// One secret, before its value is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretDefinition {
    /// Where the value is; nothing here looks it up.
    pub source: SecretSource,
    /// Empty is every host, which only `allow-any-host-dangerous` makes it.
    pub hosts: Vec<SecretHost>,
    /// In lower case; `*` is every one.
    pub headers: Vec<String>,
    /// The stand-in is replaced in the query of an address as well.
    pub query: bool,
    /// And in bodies.
    pub body: bool,
}

impl SecretDefinition {
    pub(super) fn new(source: SecretSource, hosts: Vec<SecretHost>) -> Self {
        let headers = CREDENTIAL_HEADERS.map(String::from).to_vec();
        Self { source, hosts, headers, query: false, body: false }
    }
}

/// Variables that would change what runs, in the guest or beside it, instead of holding a stand-in.
const TAKEN: [&str; 35] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "TERM",
    "TMPDIR",
    "IFS",
    "ENV",
    "BASH_ENV",
    "COLORTERM",
    "NO_COLOR",
    "NO_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "CURL_CA_BUNDLE",
    "GCONV_PATH",
    "GIT_EXEC_PATH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "HOSTALIASES",
    "LOCPATH",
    "NLSPATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "OPENSSL_CONF",
    "PERL5LIB",
    "PIP_CERT",
    "PYTHONPATH",
    "REQUESTS_CA_BUNDLE",
    "RES_OPTIONS",
    "SSLKEYLOGFILE",
    "TZ",
];
const TAKEN_PREFIXES: [&str; 8] =
    ["LD_", "DYLD_", "MSB_", "SSL_CERT_", "RUST_", "XDG_", "GLIBC_", "AGENTS_SANDBOX_"];

/// Whether a secret may have this name, which is that of a variable.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(plain) {
        return Err(format!("`{name}` is not the name of a variable"));
    }
    let upper = name.to_ascii_uppercase();
    if TAKEN.contains(&upper.as_str()) || TAKEN_PREFIXES.iter().any(|prefix| upper.starts_with(prefix)) {
        return Err(format!("{name} cannot be a secret: programs act on that variable"));
    }
    Ok(())
}

const ANY: &str = "allow-any-host-dangerous";
const KEYS: [&str; 12] = [
    "value",
    "from-env",
    "from-file",
    "from-command",
    "from-keyring",
    "host",
    "hosts",
    ANY,
    "allow_any_host_dangerous",
    "headers",
    "query",
    "body",
];

/// Reads the definition of `name`. In a project's file the value may only stand there itself, or come from a
/// variable, which the user approves.
pub fn read(name: &str, node: &Node, folders: &Folders, project: bool) -> Result<SecretDefinition, Refusal> {
    let explain = |refusal: Refusal| {
        let message = format!("{name}: {}", refusal.message);
        let help = refusal.help.unwrap_or_else(|| FORMS.into());
        Refusal::new(refusal.span, message).help(help)
    };
    if !matches!(node.tree, Tree::Map(_)) {
        // Whatever stands there may be the value.
        let message = format!("{name}: expected a map, found {}", node.kind());
        return Err(Refusal::new(node.span.clone(), message).help(FORMS));
    }
    definition(node, folders, project).map_err(explain)
}

fn definition(node: &Node, folders: &Folders, project: bool) -> Result<SecretDefinition, Refusal> {
    let mut fields = Fields::new(node, &KEYS)?;
    let source = source(&mut fields, node, folders, project)?;
    let any = match fields.take(ANY).or_else(|| fields.take("allow_any_host_dangerous")) {
        Some(any) => boolean(any, folders)?,
        None => false,
    };
    let hosts = hosts(&mut fields, node)?;
    match (any, hosts.is_empty()) {
        (false, true) => {
            let message = format!("it says no host; write host, hosts, or {ANY}: true");
            return Err(Refusal::new(node.span.clone(), message));
        }
        (true, false) => {
            let message = format!("it says both hosts and {ANY}");
            return Err(Refusal::new(node.span.clone(), message).help("leave out one of them"));
        }
        _ => {}
    }
    let mut definition = SecretDefinition::new(source, hosts);
    if let Some(headers) = fields.take("headers") {
        definition.headers = headers_of(headers)?;
    }
    for (key, flag) in [("query", &mut definition.query), ("body", &mut definition.body)] {
        if let Some(node) = fields.take(key) {
            *flag = boolean(node, folders)?;
        }
    }
    if definition.headers.is_empty() && !definition.query && !definition.body {
        let message = "it would be put in nowhere: headers, query and body are all off";
        return Err(Refusal::new(node.span.clone(), message).help("leave out `headers`, or switch one on"));
    }
    Ok(definition)
}

fn source(
    fields: &mut Fields<'_>,
    node: &Node,
    folders: &Folders,
    project: bool,
) -> Result<SecretSource, Refusal> {
    let found: Vec<(&str, &Node)> =
        KEYS[..5].iter().filter_map(|key| fields.take(key).map(|node| (*key, node))).collect();
    let [(key, from)] = found[..] else {
        let message = if found.is_empty() {
            "it does not say where the value is"
        } else {
            "it says more than once where the value is"
        };
        return Err(Refusal::new(node.span.clone(), message));
    };
    let refuse = |message: &str| Refusal::new(from.span.clone(), message.to_owned());
    if project && matches!(key, "from-file" | "from-command" | "from-keyring") {
        let message = format!("a project's file cannot say `{key}`, which reads or runs what is yours");
        return Err(refuse(&message).help(
            "define the secret in your own ~/.config/agents-sandbox/env.secret.yaml; a project can say from-env",
        ));
    }
    let text = |what: &str| {
        let text = from.scalar().filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| refuse(&format!("`{key}` takes {what}")))
    };
    Ok(match key {
        "value" => match &from.tree {
            // An empty value is one.
            Tree::Text(value) | Tree::Number(value) => SecretSource::Literal(SecretValue::new(value.clone())),
            _ => return Err(refuse("`value` takes a text; put quotes around it")),
        },
        "from-env" => {
            let name = text("the name of a variable")?;
            if name.contains(['=', '\0']) {
                return Err(refuse("`from-env` takes the name of a variable"));
            }
            SecretSource::Env(name)
        }
        "from-file" => SecretSource::File(folders.path(&text("a path")?, &from.span)?),
        "from-command" => SecretSource::Command(command(from)?),
        _ => keyring(from)?,
    })
}

fn command(node: &Node) -> Result<Vec<String>, Refusal> {
    let refuse =
        || Refusal::new(node.span.clone(), "`from-command` takes a line for the shell, or a list of words");
    let words = match &node.tree {
        Tree::Text(line) => vec![line.clone()],
        Tree::List(items) => items
            .iter()
            .map(|item| item.scalar().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(refuse)?,
        _ => return Err(refuse()),
    };
    if words.first().is_none_or(|word| word.trim().is_empty()) { Err(refuse()) } else { Ok(words) }
}

/// A text is the attribute `service`; a map has them all.
fn keyring(node: &Node) -> Result<SecretSource, Refusal> {
    let refuse =
        || Refusal::new(node.span.clone(), "`from-keyring` takes a service's name, or a map of attributes");
    if let Some(service) = node.scalar().filter(|service| !service.trim().is_empty()) {
        return Ok(SecretSource::Keyring(BTreeMap::from([("service".into(), service.into())])));
    }
    let Tree::Map(pairs) = &node.tree else { return Err(refuse()) };
    let attributes = pairs.iter().map(|pair| {
        let value = pair.value.scalar().filter(|value| !value.trim().is_empty()).ok_or_else(refuse)?;
        if pair.key.is_empty() || pair.key.starts_with('-') {
            Err(refuse())
        } else {
            Ok((pair.key.clone(), value.into()))
        }
    });
    let attributes: BTreeMap<String, String> = attributes.collect::<Result<_, _>>()?;
    if attributes.is_empty() { Err(refuse()) } else { Ok(SecretSource::Keyring(attributes)) }
}

fn hosts(fields: &mut Fields<'_>, node: &Node) -> Result<Vec<SecretHost>, Refusal> {
    let (one, several) = (fields.take("host"), fields.take("hosts"));
    if one.is_some() && several.is_some() {
        return Err(Refusal::new(node.span.clone(), "it says both `host` and `hosts`"));
    }
    let Some(list) = one.or(several) else { return Ok(Vec::new()) };
    let mut hosts = Vec::new();
    for (text, span) in items_of(list)?.into_iter().filter(|(text, _)| !text.is_empty()) {
        let host: SecretHost = text.parse().map_err(|error: sandbox_model::InvalidSecretHost| {
            Refusal::new(span, format!("the host `{text}` cannot be used: {error}")).help(SECRET_HOST_FORMS)
        })?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts.sort();
    Ok(hosts)
}

/// `true` and `*` are every field, `false` is none.
fn headers_of(node: &Node) -> Result<Vec<String>, Refusal> {
    let word = match &node.tree {
        Tree::Bool(true) => "true",
        Tree::Bool(false) => "false",
        _ => node.scalar().unwrap_or_default(),
    };
    match word {
        "true" | "yes" | "on" => return Ok(vec!["*".into()]),
        "false" | "no" | "off" => return Ok(Vec::new()),
        _ => {}
    }
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let mut names = Vec::new();
    for (name, span) in items_of(node)?.into_iter().filter(|(name, _)| !name.is_empty()) {
        let name = name.to_ascii_lowercase();
        if !name.chars().all(token) {
            return Err(Refusal::new(span, format!("`{name}` is no header field")));
        }
        names.push(name);
    }
    if names.iter().any(|name| name == "*") {
        return Ok(vec!["*".into()]);
    }
    names.sort();
    names.dedup();
    Ok(names)
}
