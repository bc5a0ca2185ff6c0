use std::num::NonZeroU16;

use sandbox_model::TermSize;
use vt100::Parser;

use super::modes::Modes;

/// Lines that are kept above the screen, 32 bytes a cell.
const HISTORY: usize = 1000;
/// More cells than any terminal has. A wish beyond it must not cost the guest its memory.
const LARGEST: u16 = 1000;

/// What a terminal shows: its screen, what has scrolled away above it, and its modes.
pub struct Picture {
    parser: Parser<Modes>,
}

fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number.min(LARGEST)).unwrap_or(NonZeroU16::MIN)
}

impl Picture {
    /// An empty screen.
    pub fn new(size: TermSize) -> Self {
        let (rows, cols) = (cells(size.rows), cells(size.cols));
        Self { parser: Parser::new_with_callbacks(rows, cols, HISTORY, Modes::default()) }
    }

    /// Follows what a program writes. Sequences may be split anywhere between two calls.
    pub fn feed(&mut self, output: &[u8]) {
        self.parser.process(output);
    }

    pub fn resize(&mut self, size: TermSize) {
        self.parser.set_size(cells(size.rows), cells(size.cols));
    }

    /// Whether the alternate screen is shown.
    pub fn is_alternate(&self) -> bool {
        self.parser.screen().alternate_screen()
    }

    /// What makes a terminal of `size`, which has shown something else so far, show this. What it showed
    /// goes up into its history, and the history of this picture follows.
    pub fn for_newcomer(&mut self, size: TermSize) -> Vec<u8> {
        let rows = usize::from(size.rows.min(LARGEST));
        let mut text = format!("\x1b[{};1H{}\x1b[m", size.rows, "\r\n".repeat(rows));
        for line in self.history() {
            text += &line;
            text += "\x1b[m\r\n";
        }
        // The last of it is still on the screen, which is about to be cleared.
        text += &"\r\n".repeat(rows.saturating_sub(1));
        self.draw(&mut text, false, true);
        text.into_bytes()
    }

    /// What makes a terminal show this that has followed and lost track. `alternate` is which screen it
    /// shows.
    pub fn again(&mut self, alternate: bool) -> Vec<u8> {
        let mut text = String::new();
        self.draw(&mut text, alternate, false);
        text.into_bytes()
    }

    fn draw(&self, text: &mut String, alternate: bool, is_new: bool) {
        let (screen, modes) = (self.parser.screen(), self.parser.callbacks());
        // All at once, where the terminal knows how; no margins; no mouse unless it is asked for below.
        *text += "\x1b[?2026h\x1b[?6l\x1b[r\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l";
        match (alternate, screen.alternate_screen()) {
            (false, true) => *text += "\x1b[?1049h",
            (true, false) => *text += "\x1b[?1049l",
            _ => {}
        }
        modes.write(text, is_new);
        *text += &screen.input_mode_formatted();
        // Last, because it places the cursor.
        *text += &screen.contents_formatted();
        *text += "\x1b[?2026l";
    }

    /// What has scrolled away, the oldest line first.
    fn history(&mut self) -> Vec<String> {
        let (rows, cols) = self.parser.screen().size();
        let rows = usize::from(rows.get());
        let screen = self.parser.screen_mut();
        let mut lines = Vec::new();
        let mut left = screen.scrollback_len();
        while left > 0 {
            screen.set_scrollback(left);
            lines.extend(screen.rows_formatted(0, cols.get()).take(rows.min(left)));
            left -= rows.min(left);
        }
        screen.set_scrollback(0);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TermSize = TermSize { cols: 20, rows: 4 };

    fn shown(picture: &Picture) -> String {
        picture.parser.screen().contents()
    }

    fn terminal() -> Picture {
        let mut terminal = Picture::new(SIZE);
        terminal.feed(b"$ agents-sandbox shell\r\n");
        terminal
    }

    #[test]
    fn a_newcomer_sees_the_screen_and_finds_the_rest_above_it() {
        let mut picture = Picture::new(SIZE);
        for number in 1..=30 {
            picture.feed(format!("line \x1b[31m{number}\x1b[m\r\n").as_bytes());
        }
        picture.feed(b"$ wide \xe4\xbd\xa0");
        let mut terminal = terminal();
        terminal.feed(&picture.for_newcomer(SIZE));
        assert_eq!(shown(&terminal), shown(&picture));
        assert_eq!(shown(&terminal), "line 28\nline 29\nline 30\n$ wide \u{4f60}");
        assert_eq!(
            terminal.parser.screen().cursor_position(),
            picture.parser.screen().cursor_position(),
            "the cursor"
        );
        let history = terminal.history().join("\n");
        let at = |text: &str| history.find(text).unwrap_or_else(|| panic!("no {text:?} in {history:?}"));
        assert!(at("agents-sandbox") < at("31m1\n"), "what was there before comes first: {history:?}");
        assert!(history.contains("27"), "{history:?}");
    }

    #[test]
    fn modes_and_the_alternate_screen_arrive() {
        let mut picture = Picture::new(SIZE);
        picture.feed(b"\x1b[?1049h\x1b[?1002;1006h\x1b[?2004h\x1b[?1h\x1b[?25l\x1b[?1004h\x1b[>1u\x1b[2;3Hx");
        let mut terminal = terminal();
        terminal.feed(&picture.for_newcomer(SIZE));
        let (was, is) = (picture.parser.screen(), terminal.parser.screen());
        assert!(is.alternate_screen() && is.bracketed_paste() && is.application_cursor() && is.hide_cursor());
        assert_eq!(is.mouse_protocol_mode(), was.mouse_protocol_mode());
        assert_eq!(is.mouse_protocol_encoding(), was.mouse_protocol_encoding());
        assert_eq!((shown(&terminal), is.cursor_position()), (shown(&picture), (1, 3)));
        assert_eq!(terminal.parser.callbacks(), picture.parser.callbacks(), "the modes kept by us");
    }

    #[test]
    fn who_lost_track_is_brought_back() {
        let mut picture = Picture::new(SIZE);
        let mut terminal = Picture::new(SIZE);
        let begin = b"\x1b[?1049h\x1b[?1000h\x1b[?1004h\x1b[3;4rfull screen";
        picture.feed(begin);
        terminal.feed(begin);
        // It misses the end of the full-screen program.
        picture.feed(b"\x1b[?1049l\x1b[?1000l\x1b[?1004l\x1b[r$ ls");
        terminal.feed(&picture.again(true));
        assert_eq!(shown(&terminal), shown(&picture));
        let screen = terminal.parser.screen();
        assert!(!screen.alternate_screen());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        assert_eq!(terminal.parser.callbacks(), picture.parser.callbacks());
    }

    #[test]
    fn an_absurd_size_is_bounded() {
        let mut picture = Picture::new(TermSize { cols: u16::MAX, rows: 0 });
        assert_eq!(picture.parser.screen().size(), (NonZeroU16::MIN, cells(LARGEST)));
        picture.resize(TermSize { cols: 0, rows: u16::MAX });
        assert_eq!(picture.parser.screen().size(), (cells(LARGEST), NonZeroU16::MIN));
        picture.feed("\u{4f60}\r\nx".as_bytes());
    }
}
