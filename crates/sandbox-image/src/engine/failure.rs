//! What a failed tool's output tells about the failure.

use std::collections::VecDeque;

use super::steps::{parse_blame, parse_step};
use crate::BuildFailure;

/// How many of the last lines an error carries.
const KEPT_LINES: usize = 40;
/// Characters that an error keeps of one line: an engine repeats a whole instruction in its last line.
const LONGEST_LINE: usize = 400;

/// Listens to a tool, to say in the end which step failed and what was said last.
#[derive(Debug, Default)]
pub(super) struct Failure {
    step: Option<String>,
    /// A program of the step ended with an error.
    failed: bool,
    /// The tool itself crashed after that.
    crashed: bool,
    tail: VecDeque<String>,
}

impl Failure {
    /// Takes one line of the output.
    pub(super) fn hear(&mut self, line: &str) {
        if let Some(blamed) = parse_blame(line) {
            self.step = Some(blamed);
        } else if let Some(found) = parse_step(line)
            && !self.failed
        {
            self.step = Some(found.text);
        }
        self.failed |= line.starts_with("subprocess exited with status ");
        // buildah 1.28, and podman 4.3 with it, still begins another stage after a failed one, and may crash
        // there on what it has taken down already. That trace explains nothing, and would push out what does.
        self.crashed |= self.failed && line.starts_with("panic: ");
        if self.crashed {
            return;
        }
        if self.tail.len() == KEPT_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(shortened(line));
    }

    pub(super) fn report(self, tool: &str, status: String) -> BuildFailure {
        BuildFailure { tool: tool.into(), step: self.step, status, last_lines: self.tail.into() }
    }
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(output: &str) -> BuildFailure {
        let mut failure = Failure::default();
        output.lines().for_each(|line| failure.hear(line));
        failure.report("buildah build", "exit status 2".into())
    }

    #[test]
    fn a_crash_after_a_failed_step_hides_neither_the_step_nor_its_words() {
        let mut output = "[5/5] STEP 9/21: RUN make\nthe reason\n".to_string();
        output += "subprocess exited with status 41\nsubprocess exited with status 41\n";
        output += "[3/5] STEP 1/7: FROM base\n[3/5] STEP 2/7: USER root\n";
        output += "panic: runtime error: invalid memory address or nil pointer dereference\n";
        output += &"goroutine 59 [running]:\n".repeat(100);
        let report = report(&output);
        assert_eq!(report.step.as_deref(), Some("RUN make"));
        assert!(report.last_lines.iter().any(|line| line == "the reason"), "{report:?}");
        assert!(!report.last_lines.iter().any(|line| line.contains("goroutine")), "{report:?}");
    }

    #[test]
    fn a_crash_without_a_failed_step_is_shown() {
        let report = report("STEP 1/2: FROM base\nSTEP 2/2: RUN make\npanic: out of luck\ngoroutine 1\n");
        assert_eq!(report.step.as_deref(), Some("RUN make"));
        assert_eq!(report.last_lines[2..], ["panic: out of luck", "goroutine 1"]);
    }

    #[test]
    fn the_engine_knows_best_whom_to_blame() {
        let output = "STEP 1/2: RUN one\nsubprocess exited with status 1\nSTEP 2/2: RUN two\n";
        let report = report(&format!("{output}Error: building at STEP \"RUN two\": exit status 1\n"));
        assert_eq!(report.step.as_deref(), Some("RUN two"));
    }
}
