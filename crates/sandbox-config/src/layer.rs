use crate::error::Refusal;
use crate::fields::{entries, unique, unknown};
use crate::settings::{DIND, KEYS, Settings, Source};
use crate::tree::{Node, Pair, Tree};

/// What only the user can say, never a file that whoever works in a sandbox can write: which code runs on
/// the host and below the guest, whom all connections are shown to, and that the user agrees.
pub(crate) const USERS_OWN: [&str; 6] =
    ["msb.archive", "network.no-proxy", "network.proxy", "qemu.kernel", "upgrade.source", "yes"];

/// Applies a document to the settings of the layers below it. Returns the keys that it sets. Keys in
/// `barred` are refused.
pub(crate) fn apply(
    settings: &mut Settings,
    document: &Node,
    source: &Source<'_>,
    barred: &[&str],
) -> Result<Vec<&'static str>, Refusal> {
    let mut leaves = Vec::new();
    collect(document, "", &mut leaves)?;
    if let Some((key, node)) = leaves.iter().find(|(key, _)| barred.contains(key)) {
        let refusal = Refusal::new(node.span.clone(), format!("a project's file cannot set `{key}`"));
        return Err(refusal.help("set it in your own configuration, or with its variable or flag"));
    }
    let docker = leaves.iter().any(|(key, _)| *key == "docker");
    for (key, node) in &leaves {
        // The old name is read, so that a mistake in it shows, but the new one wins.
        if *key == DIND && docker {
            settings.clone().assign(key, node, source)?;
        } else {
            settings.assign(key, node, source)?;
        }
    }
    Ok(leaves.into_iter().map(|(key, _)| key).collect())
}

/// The settings in `node`, whose keys all begin with `section` (with its dot).
fn collect<'a>(
    node: &'a Node,
    section: &str,
    leaves: &mut Vec<(&'static str, &'a Node)>,
) -> Result<(), Refusal> {
    let name = match section.trim_end_matches('.') {
        "" => "the file".to_owned(),
        section => format!("`{section}`"),
    };
    let pairs = entries(node, &name, "a map")?;
    unique(pairs)?;
    for pair in pairs {
        let name = format!("{section}{}", pair.key);
        if let Some(key) = KEYS.iter().find(|key| key.name == name && !pair.key.contains('.')) {
            // A key without a value is a key that is not set.
            if pair.value.tree != Tree::Null {
                leaves.push((key.name, &pair.value));
            }
        } else if KEYS.iter().any(|key| key.name.starts_with(&format!("{name}."))) {
            collect(&pair.value, &format!("{name}."), leaves)?;
        } else {
            return Err(unknown_key(pair, section));
        }
    }
    Ok(())
}

fn unknown_key(pair: &Pair, section: &str) -> Refusal {
    let here = KEYS.iter().filter_map(|key| {
        let rest = key.name.strip_prefix(section)?;
        Some(rest.split_once('.').map_or(rest, |(first, _)| first))
    });
    let refusal = unknown(pair, section, here);
    let elsewhere = |key: &&crate::settings::Key| {
        key.name == pair.key || key.name.rsplit_once('.').is_some_and(|(_, last)| last == pair.key)
    };
    match KEYS.iter().find(elsewhere).and_then(|key| key.name.split_once('.')) {
        Some((outer, inner)) => refusal.help(format!("write `{inner}:` inside `{outer}:`")),
        None => refusal,
    }
}
