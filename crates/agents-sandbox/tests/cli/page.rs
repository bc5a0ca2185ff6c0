//! The table of promises names tests that exist.

use std::path::{Path, PathBuf};

/// Where the short forms of the table begin.
const SHORT: [(&str, &str); 4] = [
    ("cli/", "agents-sandbox/tests/cli/"),
    ("vm/", "agents-sandbox/tests/vm/"),
    ("e2e/", "agents-sandbox/tests/e2e/"),
    ("flows/", "sandbox-lifecycle/tests/flows/"),
];

fn file(named: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let short = SHORT.iter().find_map(|(short, long)| Some(format!("{long}{}", named.strip_prefix(short)?)));
    crates.join(short.as_deref().unwrap_or(named))
}

/// A test of that name, or a case that is listed under it: `("name", what_it_runs),`, with a word before the bracket
/// or without, or the name of a file's only one.
fn has(text: &str, name: &str) -> bool {
    let (test, listed) = (format!("fn {name}("), format!("(\"{name}\", "));
    let only = format!("const CASE: &str = \"{name}\";");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_test = |at: usize| {
        let mut before = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        before.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    lines.iter().enumerate().any(|(at, line)| {
        line.strip_prefix("async ").unwrap_or(line).starts_with(&test) && is_test(at)
            || line.ends_with("),") && line.split_once(&listed).is_some_and(|(before, _)| is_path(before))
            || line.ends_with(&only)
    })
}

/// `Case::core`, or nothing.
fn is_path(word: &str) -> bool {
    word.chars().all(|char| char.is_ascii_alphanumeric() || "_:".contains(char))
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sandboxes-page.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut promises = 0;
    let mut missing = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Promise")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [_, tests] = cells[..] else { panic!("a row of two cells: {row}") };
        let tests: Vec<&str> = tests.split('`').filter(|text| text.contains(".rs::")).collect();
        assert!(!tests.is_empty(), "a promise without a test: {row}");
        promises += 1;
        for test in tests {
            let (path, name) = test.split_once("::").unwrap();
            let text = std::fs::read_to_string(file(path)).unwrap_or_default();
            if !has(&text, name) {
                missing.push(test.to_string());
            }
        }
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
    assert!(promises > 80, "only {promises} promises are in the table");
}

/// The check itself would notice.
#[test]
fn a_test_that_is_not_there_is_noticed() {
    let text = std::fs::read_to_string(file("cli/page.rs")).unwrap();
    assert!(has(&text, "every_promise_names_a_test_that_exists"));
    assert!(!has(&text, &["no", "such", "test"].join("_")));
    assert!(!has(&text, "has"), "it is no test");
    for (line, counts) in [
        ("    (\"it_works\", works),", true),
        ("    Case::core(\"it_works\", works),", true),
        ("pub const CASE: &str = \"it_works\";", true),
        ("    #[tokio::test]\n    #[ignore = \"slow\"]\n    async fn it_works() {", true),
        ("    async fn it_works() {", false),
        ("    assert_eq!(name(), \"it_works\", works),", false),
        ("    run(&[\"it_works\", works]),", false),
        ("// \"it_works\"", false),
    ] {
        assert_eq!(has(line, "it_works"), counts, "{line}");
    }
}
