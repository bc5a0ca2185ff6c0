use std::fmt;

use sandbox_model::{InvalidVariable, NO_PROXY_FORMS, NoProxy, PROXY_FORMS, Proxies, ProxyUrl};

use crate::error::Refusal;
use crate::origin::Origin;
use crate::read::{Folders, items_of};
use crate::settings::Settings;
use crate::tree::Node;

/// Through which proxy this host reaches the world.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProxySetting {
    /// What the variables say that other programs read.
    #[default]
    Auto,
    /// None, whatever they say.
    None,
    /// This one.
    Url(ProxyUrl),
}

/// Without a password.
impl fmt::Display for ProxySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::None => f.pad("none"),
            Self::Url(proxy) => proxy.fmt(f),
        }
    }
}

impl Settings {
    /// The proxies that hold; `read` looks a variable up.
    pub fn proxies(&self, read: impl Fn(&str) -> Option<String>) -> Result<Option<Proxies>, InvalidVariable> {
        let direct = if self.network_no_proxy.origin == Origin::Default {
            let found =
                ["no_proxy", "NO_PROXY"].iter().find_map(|name| read(name).filter(|text| !text.is_empty()));
            NoProxy::lenient(&found.unwrap_or_default())
        } else {
            // Each entry was checked when it was read.
            NoProxy::lenient(&self.network_no_proxy.value.join(","))
        };
        match &self.network_proxy.value {
            ProxySetting::None => Ok(None),
            ProxySetting::Auto => Proxies::of_variables(read, direct),
            ProxySetting::Url(proxy) => Ok(Some(Proxies::one(proxy.clone(), direct))),
        }
    }
}

/// What is refused is not repeated: it may have a password in it.
pub(crate) fn proxy(node: &Node, _: &Folders) -> Result<ProxySetting, Refusal> {
    let refuse = |problem: String| Refusal::new(node.span.clone(), problem);
    let text = node.scalar().ok_or_else(|| refuse("expected a proxy".into()).help(PROXY_FORMS))?;
    match text.trim() {
        "auto" | "" => Ok(ProxySetting::Auto),
        "none" => Ok(ProxySetting::None),
        text => match text.parse() {
            Ok(proxy) => Ok(ProxySetting::Url(proxy)),
            Err(error) => Err(refuse(format!("this is no proxy: {error}"))
                .help(format!("`auto`, `none`, or: {PROXY_FORMS}"))),
        },
    }
}

/// A list of what is reached without the proxy.
pub(crate) fn no_proxy(node: &Node, _: &Folders) -> Result<Vec<String>, Refusal> {
    let mut entries = Vec::new();
    for (text, span) in items_of(node)? {
        if let Err(error) = NoProxy::of([text.as_str()]) {
            return Err(Refusal::new(span, error.to_string()).help(NO_PROXY_FORMS));
        }
        if !entries.contains(&text) {
            entries.push(text);
        }
    }
    Ok(entries)
}
