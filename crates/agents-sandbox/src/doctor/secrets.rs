use std::path::Path;

use sandbox_state::Layout;

use super::Finding;
use crate::secrets::{files, reach};

const CHECK: &str = "secrets";

/// Which secrets are defined, and for whom. No value is looked up.
pub fn check(layout: &Layout, project: Option<&Path>) -> Option<Finding> {
    match files(layout, project) {
        Ok(files) if files.secrets.is_empty() => None,
        Ok(files) => {
            let secrets = files.secrets.iter();
            let list: Vec<String> =
                secrets.map(|(name, secret)| format!("{name} for {}", reach(&secret.value))).collect();
            Some(Finding::good(CHECK, list.join("; ")))
        }
        Err(error) => {
            let hint = error.hints.first().cloned().unwrap_or_default();
            Some(Finding::missing(CHECK, error.message, hint))
        }
    }
}
