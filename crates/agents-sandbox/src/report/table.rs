use std::io::IsTerminal;

use anstream::ColorChoice;
use comfy_table::{Attribute, Cell as Shown, Color, ColumnConstraint, ContentArrangement};

use super::plain;

/// How a cell looks where colour is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Dim,
    Good,
    Passing,
    Bad,
}

/// A column: its heading, and whether its cells are kept whole when the terminal is too narrow for all.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub heading: &'static str,
    pub whole: bool,
}

/// Rows under headings. What cells contain is made plain on the way in.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.rows.push(cells.into_iter().map(|(text, tone)| (plain(&text), tone)).collect());
    }

    /// Fitted to the terminal, and coloured; full width and plain where another program reads it.
    pub fn render(&self) -> String {
        let stdout = std::io::stdout();
        let width =
            stdout.is_terminal().then(terminal_size::terminal_size).flatten().map(|(width, _)| width.0);
        self.render_for(width, anstream::AutoStream::choice(&stdout) != ColorChoice::Never)
    }

    /// For messages: fitted to the terminal on stderr.
    pub fn render_plain(&self) -> String {
        let width = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| width.0);
        self.render_for(width, false)
    }

    fn render_for(&self, width: Option<u16>, colour: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING).force_no_tty();
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        if colour {
            table.enforce_styling().style_text_only();
        }
        table.set_header(self.columns.iter().map(|c| Shown::new(c.heading).add_attribute(Attribute::Bold)));
        for row in &self.rows {
            table.add_row(row.iter().map(|(text, tone)| styled(Shown::new(text), *tone)));
        }
        for (index, column) in self.columns.iter().enumerate() {
            if let Some(shown) = table.column_mut(index) {
                shown.set_padding((0, 2));
                if column.whole {
                    shown.set_constraint(ColumnConstraint::ContentWidth);
                }
            }
        }
        table.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>().join("\n")
    }
}

fn styled(cell: Shown, tone: Tone) -> Shown {
    match tone {
        Tone::Plain => cell,
        Tone::Dim => cell.add_attribute(Attribute::Dim),
        Tone::Good => cell.fg(Color::DarkGreen),
        Tone::Passing => cell.fg(Color::DarkYellow),
        Tone::Bad => cell.fg(Color::DarkRed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[
            Column { heading: "NAME", whole: false },
            Column { heading: "STATUS", whole: true },
        ]);
        table.row([("a-rather-long-name-of-a-sandbox".into(), Tone::Plain), ("running".into(), Tone::Good)]);
        table.row([("evil\x1b[2J\nname".into(), Tone::Plain), ("crashed".into(), Tone::Bad)]);
        table
    }

    #[test]
    fn a_pipe_gets_whole_plain_lines() {
        insta::assert_snapshot!(table().render_for(None, false), @r"
        NAME                             STATUS
        a-rather-long-name-of-a-sandbox  running
        evil name                        crashed
        ");
    }

    #[test]
    fn a_narrow_terminal_gets_wrapped_cells() {
        let text = table().render_for(Some(30), false);
        assert!(text.lines().all(|line| line.len() <= 30), "{text}");
        assert!(text.contains("crashed"), "{text}");
    }

    #[test]
    fn colour_is_only_where_it_is_asked_for() {
        assert!(
            table().render_for(None, true).contains("\x1b[38;5;2mrunning"),
            "{:?}",
            table().render_for(None, true)
        );
        assert!(!table().render_for(None, false).contains('\x1b'));
    }
}
