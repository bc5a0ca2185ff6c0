use serde_json::{Value as Json, json};

use crate::origin::Origin;
use crate::settings::Settings;
use crate::show::Show;

/// One setting as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// As in files. An entry of a map is named `mounts./data`.
    pub key: String,
    /// For people; empty where nothing is set.
    pub value: String,
    /// For programs.
    pub json: Json,
    /// The layer that set the value.
    pub origin: Origin,
}

/// Every setting with its value and its origin. A map without entries is listed once, empty.
pub fn entries(settings: &Settings) -> Vec<Entry> {
    let mut entries = Vec::new();
    settings.each(|key, value: &dyn Show, origin| {
        entries.push(Entry {
            key: key.into(),
            value: value.show(),
            json: value.json(),
            origin: origin.clone(),
        });
    });
    if settings.mounts.is_empty() {
        entries.push(empty_map("mounts"));
    }
    for (target, mount) in &settings.mounts {
        let json =
            json!({ "source": mount.value.source.to_string_lossy(), "readonly": mount.value.readonly });
        let key = format!("mounts.{target}");
        entries.push(Entry { key, value: mount.value.to_string(), json, origin: mount.origin.clone() });
    }
    if settings.home.is_empty() {
        entries.push(empty_map("home"));
    }
    for (target, file) in &settings.home {
        let mut json = json!({ "source": file.value.source.to_string_lossy() });
        if file.value.startup {
            json["hook"] = "startup".into();
            json["root"] = file.value.root.into();
        }
        let key = format!("home.{target}");
        entries.push(Entry { key, value: file.value.to_string(), json, origin: file.origin.clone() });
    }
    entries
}

fn empty_map(key: &str) -> Entry {
    Entry { key: key.into(), value: String::new(), json: json!({}), origin: Origin::Default }
}
