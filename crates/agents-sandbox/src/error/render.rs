use anstyle::{AnsiColor, Style};

use super::CommandError;
use crate::report::{labelled, plain_lines};

impl CommandError {
    /// The lines for the person: `error:`, `caused by:`, the excerpt, `hint:`.
    pub fn render(&self) -> String {
        let mut lines = vec![labelled("error", AnsiColor::Red.on_default().bold(), &self.message)];
        let dim = Style::new().dimmed();
        lines.extend(self.causes.iter().map(|cause| labelled("  caused by", dim, cause)));
        if let Some(excerpt) = &self.excerpt {
            lines.extend(plain_lines(excerpt).lines().map(|line| format!("  {dim}│{dim:#} {line}")));
        }
        lines.extend(
            self.hints.iter().map(|hint| labelled("hint", AnsiColor::Cyan.on_default().bold(), hint)),
        );
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_line() {
        let mut error =
            CommandError::new("it did not boot").excerpt("last\r\n\x1b[31mwords\n").hint("try again");
        error.causes.push("no kernel".into());
        let text = anstream::adapter::strip_str(&error.render()).to_string();
        insta::assert_snapshot!(text, @r"
        error: it did not boot
          caused by: no kernel
          │ last
          │ words
        hint: try again
        ");
    }
}
