//! The tables of promises name tests that exist.

use std::path::{Path, PathBuf};

/// Where the short forms of the table begin.
const SHORT: [(&str, &str); 6] = [
    ("cli/", "agents-sandbox/tests/cli/"),
    ("vm/", "agents-sandbox/tests/vm/"),
    ("e2e/", "agents-sandbox/tests/e2e/"),
    ("flows/", "sandbox-lifecycle/tests/flows/"),
    ("bridge/", "sandbox-network/tests/bridge/"),
    ("lab/", "../xtask/src/lab/"),
];

fn file(named: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let short = SHORT.iter().find_map(|(short, long)| Some(format!("{long}{}", named.strip_prefix(short)?)));
    crates.join(short.as_deref().unwrap_or(named))
}

/// A test of that name, or a case that is listed under it: `("name", what_it_runs),`, with a word before the bracket
/// or without, or the name of a file's only one, or one that a shell script begins under it.
fn has(text: &str, name: &str) -> bool {
    let (function, listed) = (format!("fn {name}("), format!("\"{name}\", "));
    let begun = format!("begin {name}");
    let only = format!("const CASE: &str = \"{name}\";");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_test = |at: usize| {
        let mut before = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        before.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    lines.iter().enumerate().any(|(at, line)| {
        line.strip_prefix("async ").unwrap_or(line).starts_with(&function) && is_test(at)
            || (line.ends_with(',') || line.ends_with("];"))
                && line.split_once(&listed).is_some_and(|(before, _)| leads_in(before))
            || line.ends_with(&only)
            || *line == begun
    })
}

/// What a case begins with before its name: `(`, `Case::core(` or `Case::with(POWER, `, also as the first of a list.
fn leads_in(before: &str) -> bool {
    let is_path = |word: &str| word.chars().all(|char| char.is_ascii_alphanumeric() || "_:".contains(char));
    let before = before.rsplit('[').next().unwrap_or(before);
    before.contains('(') && before.split(['(', ',']).all(|word| is_path(word.trim()))
}

/// The tests that a cell names.
fn tests(cell: &str) -> impl Iterator<Item = String> {
    let words = cell.split('`').filter(|text| text.contains(".rs::") || text.contains(".sh::"));
    words.map(String::from)
}

/// The rows of a document's tables, of which each has so many cells: what is promised, and the tests that show it,
/// some in every cell.
fn rows(document: &str, cells: usize) -> Vec<(String, Vec<String>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let page = std::fs::read_to_string(page).unwrap();
    let is_row =
        |line: &&str| line.starts_with("| ") && !line.starts_with("| Promise") && !line.starts_with("| Rule");
    let rows = page.lines().filter(is_row).map(|row| {
        let found: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(found.len(), cells, "{row}");
        let without = found[1..].iter().find(|cell| tests(cell).next().is_none());
        assert_eq!(without, None, "a cell without a test: {row}");
        (found[0].trim().to_string(), found[1..].iter().flat_map(|cell| tests(cell)).collect())
    });
    rows.collect()
}

fn missing(rows: &[(String, Vec<String>)]) -> Vec<&str> {
    let tests = rows.iter().flat_map(|(_, tests)| tests.iter().map(String::as_str));
    let is_missing = |test: &&str| {
        let (path, name) = test.split_once("::").unwrap();
        !has(&std::fs::read_to_string(file(path)).unwrap_or_default(), name)
    };
    tests.filter(is_missing).collect()
}

#[test]
fn every_promise_names_a_test_that_exists() {
    for (document, cells, at_least) in [("sandboxes-page.md", 2, 80), ("network-tests.md", 3, 23)] {
        let rows = rows(document, cells);
        let missing = missing(&rows);
        assert!(missing.is_empty(), "{document}: no such tests: {missing:#?}");
        assert!(rows.len() > at_least, "only {} promises are in {document}", rows.len());
    }
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
        ("    #[tokio::test]\n    #[cfg(unix)]\n    async fn it_works() {", true),
        ("    async fn it_works() {", false),
        ("    assert_eq!(name(), \"it_works\", works),", false),
        ("    run(&[\"it_works\", works]),", false),
        ("// \"it_works\"", false),
    ] {
        assert_eq!(has(line, "it_works"), counts, "{line}");
    }
}
