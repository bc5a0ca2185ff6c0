use sandbox_config::{ConfigError, env_files};

use crate::lab::Lab;

#[test]
fn the_projects_variables_win_and_both_are_told_apart() {
    let lab = Lab::new();
    lab.user("env", "# mine\nA=1\n\nB=two words = \"kept\" \r\n  # C=3\n");
    lab.project("env", "A=9\n D =\nD=4");
    let files = env_files(&lab.inputs.config_dir, lab.inputs.project_dir.as_deref()).unwrap();
    assert_eq!(files.user["A"], "1");
    assert_eq!(files.project.keys().collect::<Vec<_>>(), ["A", "D"]);
    let merged = files.merged();
    assert_eq!(
        (merged["A"].as_str(), merged["B"].as_str(), merged["D"].as_str()),
        ("9", "two words = \"kept\" ", "4")
    );
    assert_eq!(merged.len(), 3);
}

#[test]
fn no_files_are_no_variables() {
    let lab = Lab::new();
    assert!(env_files(&lab.inputs.config_dir, None).unwrap().merged().is_empty());
}

#[test]
fn a_line_that_is_no_assignment_is_shown() {
    for (text, line, message) in [
        ("A=1\nB\n", 2, "this line has no `=`"),
        ("ä=1\n", 1, "`ä` is not the name of a variable"),
        ("=1\n", 1, "`` is not the name of a variable"),
        ("\n\n1A=1\n", 3, "`1A` is not the name of a variable"),
        ("export A=1\n", 1, "`export A` is not the name of a variable"),
    ] {
        let lab = Lab::new();
        let file = lab.user("env", text);
        let error = env_files(&lab.inputs.config_dir, None).unwrap_err();
        assert_eq!(error.to_string(), format!("{}:{line}:1: {message}", file.display()));
        let ConfigError::File(error) = error else { panic!("{error}") };
        assert_eq!(error.text, text.lines().nth(line - 1).unwrap());
    }
}
