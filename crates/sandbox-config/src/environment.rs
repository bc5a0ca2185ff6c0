use crate::ConfigError;
use crate::error::Refusal;
use crate::notify;
use crate::origin::Origin;
use crate::read::Folders;
use crate::settings::{DIND, KEYS, Key, Settings, Source};
use crate::tree::Node;

/// Variables that set settings begin with this.
pub const PREFIX: &str = "AGENTS_SANDBOX_";
/// They began with this once.
const OLD_PREFIX: &str = "OPENCODE_SANDBOX_";
const NOTIFY: &str = "NOTIFY";

/// What the caller may want to be told about variables.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    pub warnings: Vec<String>,
    /// The old name of `docker` was used.
    pub dind: bool,
}

/// Applies the variables, those with the old prefix first. An empty variable is one that is not set.
pub(crate) fn apply(
    settings: &mut Settings,
    variables: &[(String, String)],
    folders: &Folders,
) -> Result<Noticed, ConfigError> {
    let mut noticed = Noticed::default();
    let old = apply_prefix(settings, variables, OLD_PREFIX, folders, &mut noticed)?;
    if !old.is_empty() {
        let names = old.join(", ");
        noticed
            .warnings
            .push(format!("the prefix {OLD_PREFIX} is old, write {PREFIX} instead (found {names})"));
    }
    apply_prefix(settings, variables, PREFIX, folders, &mut noticed)?;
    noticed.warnings.extend(variables.iter().filter_map(|(name, _)| stray(name)));
    Ok(noticed)
}

/// What the variables say of the settings called `names`, for whoever reads no other layer. A variable with a
/// wrong value is as if it were not there, and its error is among those that are returned.
pub fn from_variables(variables: &[(String, String)], names: &[&str]) -> (Settings, Vec<ConfigError>) {
    let (mut settings, folders) = (Settings::default(), Folders::default());
    let mut wrong = Vec::new();
    for prefix in [OLD_PREFIX, PREFIX] {
        for key in KEYS.iter().filter(|key| key.env && names.contains(&key.name)) {
            wrong.extend(assign(&mut settings, key, variables, prefix, &folders).err());
        }
    }
    (settings, wrong)
}

/// A variable whose value is none of its setting's.
#[derive(Debug)]
pub struct WrongVariable {
    pub setting: &'static str,
    pub variable: String,
    pub error: ConfigError,
}

/// Those that keep the settings from being resolved, whichever layer wins.
pub fn wrong_variables(variables: &[(String, String)]) -> Vec<WrongVariable> {
    let (mut settings, folders) = (Settings::default(), Folders::of(variables));
    let mut wrong = Vec::new();
    for prefix in [OLD_PREFIX, PREFIX] {
        for key in KEYS.iter().filter(|key| key.env) {
            if let Err(error) = assign(&mut settings, key, variables, prefix, &folders) {
                let variable = format!("{prefix}{}", key.variable());
                wrong.push(WrongVariable { setting: key.name, variable, error });
            }
        }
        if let Some((variable, mode)) = find(variables, prefix, NOTIFY) {
            let origin = Origin::Env { variable: variable.clone() };
            if let Err(refusal) = notify::apply(&mut settings, mode, &origin) {
                let error = refused(&variable, refusal);
                wrong.push(WrongVariable { setting: "notify", variable, error });
            }
        }
    }
    wrong
}

fn find<'a>(variables: &'a [(String, String)], prefix: &str, name: &str) -> Option<(String, &'a str)> {
    let variable = format!("{prefix}{name}");
    let found = variables.iter().rev().find(|(name, value)| *name == variable && !value.is_empty());
    found.map(|(_, value)| (variable, value.as_str()))
}

fn refused(variable: &str, refusal: Refusal) -> ConfigError {
    ConfigError::Variable { variable: variable.into(), message: refusal.message, help: refusal.help }
}

/// The variable, where there is one.
fn assign(
    settings: &mut Settings,
    key: &Key,
    variables: &[(String, String)],
    prefix: &str,
    folders: &Folders,
) -> Result<Option<String>, ConfigError> {
    let Some((variable, value)) = find(variables, prefix, &key.variable()) else { return Ok(None) };
    let origin = |_| Origin::Env { variable: variable.clone() };
    settings
        .assign(key.name, &Node::typed(value), &Source { folders, origin: &origin })
        .map_err(|refusal| refused(&variable, refusal))?;
    Ok(Some(variable))
}

fn apply_prefix(
    settings: &mut Settings,
    variables: &[(String, String)],
    prefix: &str,
    folders: &Folders,
    noticed: &mut Noticed,
) -> Result<Vec<String>, ConfigError> {
    let mut used = Vec::new();
    // The old name of `docker` first, so that the new one wins.
    let (old, new): (Vec<&Key>, Vec<&Key>) =
        KEYS.iter().filter(|key| key.env).partition(|key| key.name == DIND);
    for key in old.into_iter().chain(new) {
        let Some(variable) = assign(settings, key, variables, prefix, folders)? else { continue };
        noticed.dind |= key.name == DIND;
        used.push(variable);
    }
    if let Some((variable, mode)) = find(variables, prefix, NOTIFY) {
        let origin = Origin::Env { variable: variable.clone() };
        notify::apply(settings, mode, &origin).map_err(|refusal| refused(&variable, refusal))?;
        used.push(variable);
    }
    Ok(used)
}

/// A variable with our prefix that sets nothing, but looks as if it was meant to. Others may have
/// variables with this prefix for purposes of their own.
fn stray(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(PREFIX)?;
    if name == NOTIFY {
        return None;
    }
    if let Some(key) = KEYS.iter().find(|key| key.variable() == name) {
        let only_files = format!("{variable} sets nothing: `{}` can be set in a file only", key.name);
        return (!key.env).then_some(only_files);
    }
    let known: Vec<String> =
        KEYS.iter().filter(|key| key.env).map(|key| key.variable().to_lowercase()).collect();
    let distance = |known: &&String| strsim::damerau_levenshtein(&name.to_lowercase(), known);
    let near = known.iter().filter(|known| distance(known) <= 2).min_by_key(distance)?;
    Some(format!("{variable} sets nothing; did you mean {PREFIX}{}?", near.to_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_variable_is_named_with_its_setting() {
        let variables = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let found = wrong_variables(&variables(&[
            ("HOME", "/home/u"),
            ("AGENTS_SANDBOX_MEMORY", "4X"),
            ("AGENTS_SANDBOX_CPUS", "2"),
            ("OPENCODE_SANDBOX_LOG_LEVEL", "loud"),
            ("AGENTS_SANDBOX_NOTIFY", "perhaps"),
            ("AGENTS_SANDBOX_QEMU_KERNEL", "~/kernel"),
            ("AGENTS_SANDBOX_QUIET", ""),
        ]));
        let named: Vec<_> = found.iter().map(|wrong| (wrong.setting, wrong.variable.as_str())).collect();
        let expected = [
            ("log-level", "OPENCODE_SANDBOX_LOG_LEVEL"),
            ("memory", "AGENTS_SANDBOX_MEMORY"),
            ("notify", "AGENTS_SANDBOX_NOTIFY"),
        ];
        assert_eq!(named, expected);
        assert!(found[1].error.to_string().starts_with("AGENTS_SANDBOX_MEMORY: `4X` is not a size"));
    }
}
