use serde_json::Value;

/// Lays `above` over `below`: objects are merged key by key, anything else is replaced.
pub fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                match below.get_mut(&key) {
                    Some(known) => merge(known, value),
                    None => drop(below.insert(key, value)),
                }
            }
        }
        (below, above) => *below = above,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_merge_and_everything_else_is_replaced() {
        let mut document = json!({ "a": { "x": 1, "y": [1, 2] }, "b": 1 });
        merge(&mut document, json!({ "a": { "y": [3], "z": null }, "b": { "c": 2 } }));
        assert_eq!(document, json!({ "a": { "x": 1, "y": [3], "z": null }, "b": { "c": 2 } }));
    }
}
