use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use sandbox_model::TermSize;
use vt100::Parser;

use super::modes::Modes;
use super::numbers::Numbers;

#[cfg(not(panic = "unwind"))]
compile_error!("what an untrusted program writes must not end the guest: panics have to unwind");

/// Lines that are kept above the screen, 32 bytes a cell.
const HISTORY: usize = 1000;
/// More columns or rows, and more cells, than any terminal has. A wish beyond it must not cost the guest its
/// memory.
const LARGEST: u16 = 1000;
const CELLS: u16 = u16::MAX;

/// What a terminal shows: its screen, what has scrolled away above it, and its modes.
///
/// What it follows is written by untrusted programs. Should the screen trip over it, an empty one takes its
/// place, and the program draws it again when somebody attaches.
pub struct Picture {
    parser: Parser<Modes>,
    size: TermSize,
    numbers: Numbers,
}

fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN)
}

/// Rows and columns of the screen for a terminal of `size`.
fn bounded(size: TermSize) -> (NonZeroU16, NonZeroU16) {
    let cols = cells(size.cols.min(LARGEST));
    (cells(size.rows.min(LARGEST).min(CELLS / cols)), cols)
}

fn blank(size: TermSize, modes: Modes) -> Parser<Modes> {
    let (rows, cols) = bounded(size);
    Parser::new_with_callbacks(rows, cols, HISTORY, modes)
}

impl Picture {
    /// An empty screen.
    pub fn new(size: TermSize) -> Self {
        Self { parser: blank(size, Modes::default()), size, numbers: Numbers::default() }
    }

    /// Follows what a program writes. Sequences may be split anywhere between two calls.
    pub fn feed(&mut self, output: &[u8]) {
        let output = self.numbers.bounded(output);
        self.guarded(|parser| parser.process(&output));
    }

    /// The session has this size now. A screen that cannot follow becomes a blank one.
    pub fn resize(&mut self, size: TermSize) {
        self.size = size;
        let (rows, cols) = bounded(size);
        self.guarded(|parser| parser.set_size(rows, cols));
    }

    /// Does something with the screen. One that panics is replaced; `None` then.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Parser<Modes>) -> T) -> Option<T> {
        // What is left of the screen is not looked at again; the modes are plain values of our own.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut self.parser)));
        if outcome.is_err() {
            let alternate = self.is_alternate();
            let modes = std::mem::take(self.parser.callbacks_mut());
            self.parser = blank(self.size, modes);
            if alternate {
                self.parser.process(b"\x1b[?1049h");
            }
        }
        outcome.ok()
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
        for line in self.guarded(history).unwrap_or_default() {
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

    fn draw(&mut self, text: &mut String, alternate: bool, is_new: bool) {
        let formatted = |parser: &mut Parser<Modes>| {
            let screen = parser.screen();
            (screen.input_mode_formatted(), screen.contents_formatted())
        };
        // A screen that cannot be drawn is an empty one by now, which can.
        let drawn = self.guarded(formatted).or_else(|| self.guarded(formatted));
        let (input_modes, contents) = drawn.unwrap_or_default();
        let (screen, modes) = (self.parser.screen(), self.parser.callbacks());
        // All at once, where the terminal knows how; no margins; no mouse unless it is asked for below.
        *text += "\x1b[?2026h\x1b[?6l\x1b[r\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l";
        match (alternate, screen.alternate_screen()) {
            (false, true) => *text += "\x1b[?1049h",
            (true, false) => *text += "\x1b[?1049l",
            _ => {}
        }
        modes.write(text, is_new);
        *text += &input_modes;
        // Last, because it places the cursor.
        *text += &contents;
        *text += "\x1b[?2026l";
    }
}

/// What has scrolled away, the oldest line first.
fn history(parser: &mut Parser<Modes>) -> Vec<String> {
    let (rows, cols) = parser.screen().size();
    let rows = usize::from(rows.get());
    let screen = parser.screen_mut();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        let history = history(&mut terminal.parser).join("\n");
        let at = |text: &str| history.find(text).unwrap_or_else(|| panic!("no {text:?} in {history:?}"));
        assert!(at("agents-sandbox") < at("31m1\n"), "what was there before comes first: {history:?}");
        assert!(history.contains("27"), "{history:?}");
    }

    #[test]
    fn what_scrolled_away_is_kept_up_to_a_bound() {
        let mut picture = Picture::new(SIZE);
        let feed = |picture: &mut Picture, numbers: std::ops::RangeInclusive<usize>| {
            numbers.for_each(|number| picture.feed(format!("line {number}.\r\n").as_bytes()));
        };
        let last = 3 * HISTORY;
        feed(&mut picture, 1..=last);
        // The last row is the prompt's, so three of the lines are on the screen.
        let first = last - 3 - HISTORY + 1;
        let text = String::from_utf8(picture.for_newcomer(SIZE)).unwrap();
        assert!(!text.contains(&format!("line {}.", first - 1)), "the oldest are forgotten");
        assert!((first..=last).all(|number| text.contains(&format!("line {number}."))), "the rest is there");
        assert_eq!(picture.parser.screen().scrollback_len(), HISTORY);
        // A program that prints for ever makes it no larger.
        let size = |picture: &mut Picture| picture.for_newcomer(SIZE).len();
        let before = size(&mut picture);
        feed(&mut picture, 1001..=9999);
        assert_eq!((size(&mut picture), picture.parser.screen().scrollback_len()), (before, HISTORY));
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
        picture.resize(TermSize { cols: u16::MAX, rows: u16::MAX });
        assert_eq!(picture.parser.screen().size(), (cells(65), cells(LARGEST)));
    }

    #[test]
    fn a_screen_that_trips_is_replaced_by_an_empty_one() {
        let mut picture = Picture::new(SIZE);
        picture.feed(b"\x1b[?1049h\x1b[>1u\x1b[?1004htext");
        let modes = format!("{:?}", picture.parser.callbacks());
        assert_eq!(picture.guarded(|_| -> u8 { panic!("a test") }), None);
        assert_eq!((shown(&picture).as_str(), picture.is_alternate()), ("", true));
        assert_eq!(format!("{:?}", picture.parser.callbacks()), modes);
        picture.feed(b"again");
        assert_eq!(shown(&picture), "again");
        assert!(String::from_utf8(picture.for_newcomer(SIZE)).unwrap().contains("again"));
        // A character that a mark makes wide, where there is no room for it, has tripped a real one.
        let mut narrow = Picture::new(TermSize { cols: 1, rows: 3 });
        narrow.feed("\u{2601}\u{fe0f}\u{2601}\u{301}x".as_bytes());
        narrow.resize(SIZE);
        narrow.feed(b"\x1bchere");
        assert_eq!(shown(&narrow), "here");
    }

    /// Pieces of sequences with absurd numbers, resizes between any two of them, and everything drawn.
    #[derive(Debug, Clone)]
    enum Step {
        Output(Vec<u8>),
        Resize(TermSize),
        Draw,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let number = prop_oneof![Just(0_u16), Just(1), Just(2), Just(65_535), 0..200_u16];
        let size = (number.clone(), number.clone()).prop_map(|(cols, rows)| TermSize { cols, rows });
        let sequence = (
            prop_oneof![Just(""), Just("?"), Just(">"), Just("="), Just(" "), Just("!")],
            prop::collection::vec(prop_oneof![number.prop_map(|n| n.to_string()), Just(String::new())], 0..4),
            "[@-~]",
        );
        let control =
            sequence.prop_map(|(mark, numbers, end)| format!("\x1b[{mark}{}{end}", numbers.join(";")));
        let mode = prop::sample::select(vec![6_u16, 7, 25, 47, 1047, 1049, 2004]);
        let text = prop_oneof![
            control,
            (mode, prop::bool::ANY).prop_map(|(n, on)| format!("\x1b[?{n}{}", if on { 'h' } else { 'l' })),
            "\x1b[78cDEHM=>g]",
            "[a-z\r\n\t\x08\u{4f60}\u{1f600}\u{301}\u{200d}\u{fe0f}\u{ff9f}]{1,30}",
            "\x1b\\][0-9;]{0,3}[ -~]{0,20}(\x07|\x1b\\\\)?",
        ];
        let step = prop_oneof![
            6 => text.prop_map(|text| Step::Output(text.into_bytes())),
            2 => prop::collection::vec(any::<u8>(), 1..20).prop_map(Step::Output),
            2 => size.prop_map(Step::Resize),
            1 => Just(Step::Draw),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_that_is_written_trips_it_for_long(steps in steps()) {
            let begun = std::time::Instant::now();
            let mut picture = Picture::new(SIZE);
            let mut size = SIZE;
            for step in steps {
                match step {
                    // In two halves: a resize or a drawing may come between them.
                    Step::Output(bytes) => {
                        let (first, second) = bytes.split_at(bytes.len() / 2);
                        picture.feed(first);
                        picture.resize(size);
                        picture.feed(second);
                    }
                    Step::Resize(new) => {
                        size = new;
                        picture.resize(size);
                    }
                    Step::Draw => {
                        picture.for_newcomer(size);
                        picture.again(true);
                    }
                }
            }
            picture.resize(SIZE);
            picture.feed(b"\x18\x1bc\x1b[?1049l\x1b[2J\x1b[Hhere");
            prop_assert_eq!(shown(&picture), "here");
            prop_assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        }
    }
}
