use std::path::Path;

use sandbox_config::{KEYS, PREFIX, entries};

/// The manual's table has a row for every key, with its default, its flag and its variable.
#[test]
fn every_key_is_in_the_manual() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let rows: Vec<Vec<&str>> = manual
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let defaults = entries(&sandbox_config::Settings::default());
    for key in KEYS {
        let row = rows.iter().find(|row| row[0] == format!("`{}`", key.name));
        let row = row.unwrap_or_else(|| panic!("{} is missing", key.name));
        let default = defaults.iter().find(|entry| entry.key == key.name).map_or("", |entry| &entry.value);
        let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
        assert_eq!(row[2], default, "default of {}", key.name);
        assert_eq!(
            row[3],
            key.flag.map_or("–".to_owned(), |flag| format!("`{flag}`")),
            "flag of {}",
            key.name
        );
        let variable = if key.env { format!("`{PREFIX}{}`", key.variable()) } else { "–".to_owned() };
        assert_eq!(row[4].trim_end_matches('*'), variable, "variable of {}", key.name);
    }
    for row in rows.iter().filter(|row| row.len() == 6) {
        let name = row[0].trim_matches('`');
        assert!(KEYS.iter().any(|key| key.name == name), "the manual's `{name}` is no key");
    }
}
