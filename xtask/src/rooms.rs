//! Which room may use which: the table, the real graph, and what they disagree about. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// From each room to the rooms that it uses, or may use.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

const HEADER: [&str; 3] = ["room", "what it is", "may use"];
const PREFIX: &str = "sandbox-";
/// In the last column: nothing.
const NOTHING: &str = "–";

/// Reads the table with the columns `room | what it is | may use`. Rooms stand in backticks, and without
/// `sandbox-` in the last column; `all but a, b` means every other room of the table.
pub fn table(markdown: &str) -> Result<Graph, String> {
    let mut rows = Vec::new();
    let mut lines = markdown.lines().map(cells).skip_while(|cells| *cells != HEADER);
    if lines.next().is_none() {
        return Err(format!("there is no table with the columns {}", HEADER.join(" | ")));
    }
    for cells in lines.skip(1) {
        let [room, what, uses] = cells[..] else { break };
        let room = room.trim_matches('`').to_owned();
        if what.is_empty() {
            return Err(format!("{room}: the table does not say what it is"));
        }
        rows.push((room, uses.to_owned()));
    }
    let all: BTreeSet<String> = rows.iter().map(|(room, _)| room.clone()).collect();
    if all.len() != rows.len() {
        return Err("a room has two rows".into());
    }
    let full = |name: &str| if all.contains(name) { name.to_owned() } else { format!("{PREFIX}{name}") };
    let mut graph = Graph::new();
    for (room, uses) in rows {
        let (but, names) = match uses.strip_prefix("all but ") {
            Some(names) => (true, names),
            None => (false, uses.as_str()),
        };
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != NOTHING);
        let names: BTreeSet<String> = names.map(full).collect();
        if let Some(unknown) = names.difference(&all).next() {
            return Err(format!("{room}: `{unknown}` is no room of the table"));
        }
        let mut uses = if but { all.difference(&names).cloned().collect() } else { names };
        uses.remove(&room);
        graph.insert(room, uses);
    }
    Ok(graph)
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    match line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) {
        Some(line) => line.split('|').map(str::trim).collect(),
        None => Vec::new(),
    }
}

/// The graph in the answer of `cargo metadata --no-deps`. What only tests use does not count.
pub fn real(metadata: &Value) -> Graph {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let rooms: BTreeSet<String> = packages().map(name).filter(|name| name != "xtask").collect();
    packages()
        .filter(|package| rooms.contains(&name(package)))
        .map(|package| {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let uses = dependencies.filter(|dependency| dependency["kind"] != "dev").map(name);
            (name(package), uses.filter(|used| rooms.contains(used)).collect())
        })
        .collect()
}

/// One line for each disagreement.
pub fn disagreements(allowed: &Graph, real: &Graph) -> Vec<String> {
    let mut lines = Vec::new();
    for (room, uses) in real {
        let Some(may) = allowed.get(room) else {
            lines.push(format!("{room} is not in the table"));
            continue;
        };
        lines.extend(
            uses.difference(may).map(|used| format!("{room} uses {used}, which the table does not allow")),
        );
    }
    lines.extend(
        allowed
            .keys()
            .filter(|room| !real.contains_key(*room))
            .map(|room| format!("{room} is in the table only")),
    );
    lines.extend(cycle(allowed).map(|rooms| format!("the table allows a cycle: {}", rooms.join(", "))));
    lines
}

/// Rooms that could use each other, directly or through others.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    let mut left = graph.clone();
    loop {
        let free: Vec<String> = left
            .iter()
            .filter(|(_, uses)| uses.iter().all(|used| !left.contains_key(used)))
            .map(|(room, _)| room.clone())
            .collect();
        if free.is_empty() {
            return (!left.is_empty()).then(|| left.into_keys().collect());
        }
        left.retain(|room, _| !free.contains(room));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "text\n| room | what it is | may use |\n|---|---|---|\n| `app` | x | all but guest |\n| `sandbox-state` | x | model |\n| `sandbox-guest` | x | model |\n| `sandbox-model` | x | – |\n\n| other | table | x |\n";

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn metadata(uses: &[(&str, &str, Value)]) -> Value {
        let package = |name: &str| {
            let of = uses.iter().filter(|(user, ..)| *user == name);
            let dependencies: Vec<Value> =
                of.map(|(_, used, kind)| json!({ "name": used, "kind": kind })).collect();
            json!({ "name": name, "dependencies": dependencies })
        };
        let packages = ["app", "sandbox-state", "sandbox-guest", "sandbox-model", "xtask"].map(package);
        json!({ "packages": packages })
    }

    #[test]
    fn the_table_is_read() {
        let table = table(TABLE).unwrap();
        assert_eq!(table.len(), 4);
        assert_eq!(table["app"], set(&["sandbox-state", "sandbox-model"]));
        assert_eq!(table["sandbox-guest"], set(&["sandbox-model"]));
        assert_eq!(table["sandbox-model"], set(&[]));
    }

    #[test]
    fn a_table_that_is_wrong_is_refused() {
        for (from, to) in [
            ("may use", "uses"),
            ("| model |", "| modle |"),
            ("`sandbox-guest`", "`sandbox-state`"),
            ("| x | –", "|  | –"),
        ] {
            assert!(table(&TABLE.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn the_real_graph_leaves_out_what_only_tests_use() {
        let real = real(&metadata(&[
            ("app", "sandbox-state", Value::Null),
            ("app", "serde", Value::Null),
            ("sandbox-state", "sandbox-model", json!("build")),
            ("sandbox-model", "sandbox-state", json!("dev")),
        ]));
        assert_eq!(real["app"], set(&["sandbox-state"]));
        assert_eq!(real["sandbox-state"], set(&["sandbox-model"]));
        assert_eq!(real["sandbox-model"], set(&[]));
        assert!(!real.contains_key("xtask"));
    }

    #[test]
    fn disagreements_are_named() {
        let allowed = table(TABLE).unwrap();
        let none: [String; 0] = [];
        assert_eq!(disagreements(&allowed, &real(&metadata(&[("app", "sandbox-model", Value::Null)]))), none);
        let mut graph = real(&metadata(&[("sandbox-model", "sandbox-state", Value::Null)]));
        graph.remove("sandbox-guest");
        graph.insert("sandbox-new".into(), set(&[]));
        assert_eq!(
            disagreements(&allowed, &graph),
            [
                "sandbox-model uses sandbox-state, which the table does not allow",
                "sandbox-new is not in the table",
                "sandbox-guest is in the table only",
            ]
        );
        let circular =
            table(&TABLE.replace("| `sandbox-model` | x | – |", "| `sandbox-model` | x | state |")).unwrap();
        let lines = disagreements(&circular, &real(&metadata(&[])));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("the table allows a cycle: "), "{}", lines[0]);
    }
}
