/// The candidate that a person most likely meant, where one is near enough to be worth saying.
pub fn closest<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.trim().to_lowercase().replace('_', "-");
    candidates
        .map(|candidate| (strsim::normalized_damerau_levenshtein(&typed, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_said_and_far_is_not() {
        let words = ["memory", "mounts", "log-level"];
        for (typed, meant) in [
            ("memroy", Some("memory")),
            ("log_level", Some("log-level")),
            ("Mount", Some("mounts")),
            ("xyz", None),
        ] {
            assert_eq!(closest(typed, words.into_iter()), meant, "{typed}");
        }
    }
}
