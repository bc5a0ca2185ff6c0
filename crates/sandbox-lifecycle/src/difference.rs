//! What differs between two values of a setting, in words. Pure.

/// So many members of a list are named.
const NAMED: usize = 5;

/// `4G → 9G`, where they differ.
pub fn value(from: &str, to: &str) -> Option<String> {
    (from != to).then(|| format!("{from} → {to}"))
}

/// What a list gains and loses. Its other members may be many, and are none of the change.
pub fn members(have: &[String], want: &[String]) -> Option<String> {
    if have == want {
        return None;
    }
    let missing = |all: &[String], other: &[String]| -> Vec<String> {
        all.iter().filter(|member| !other.contains(member)).cloned().collect()
    };
    let (added, removed) = (missing(want, have), missing(have, want));
    let parts =
        [("added", added), ("removed", removed)].into_iter().filter(|(_, members)| !members.is_empty());
    let parts: Vec<String> = parts.map(|(word, members)| format!("{word} {}", few(&members))).collect();
    Some(if parts.is_empty() { "another order".into() } else { parts.join("; ") })
}

/// The first of them, and how many more there are.
pub fn few(words: &[String]) -> String {
    let named = words.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match words.len() {
        0 => "nothing".into(),
        many if many > NAMED => format!("{named} and {} more", many - NAMED),
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn what_a_list_gains_and_loses_is_said_and_nothing_else() {
        for (have, want, said) in [
            ("a b", "a b", None),
            ("", "a", Some("added a")),
            ("a", "", Some("removed a")),
            ("a b c d e f g h", "a b c d e f g h new", Some("added new")),
            ("a b", "b c d", Some("added c, d; removed a")),
            ("a b", "b a", Some("another order")),
            ("1 2 3 4 5", "", Some("removed 1, 2, 3, 4, 5")),
            ("", "1 2 3 4 5 6 7", Some("added 1, 2, 3, 4, 5 and 2 more")),
        ] {
            assert_eq!(members(&words(have), &words(want)).as_deref(), said, "{have} {want}");
        }
        assert_eq!(few(&[]), "nothing");
        assert_eq!((value("1", "1"), value("1", "2")), (None, Some("1 → 2".into())));
    }
}
