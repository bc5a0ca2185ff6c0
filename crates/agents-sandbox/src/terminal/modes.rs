//! Which modes of the terminal a program has switched, so that exactly those can be switched back when it
//! ends without doing it. Blind resets would do harm: leaving an alternate screen that was never entered
//! moves the cursor. Also whether the cursor is within a line, so that a message of ours begins one of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use vte::{Params, Parser, Perform};

/// Watches the output of a command. Sequences may be split anywhere between two calls.
#[derive(Default)]
pub struct ScreenModes {
    parser: Parser,
    modes: Modes,
}

#[derive(Default)]
struct Modes {
    /// DEC private modes that are not as a terminal starts: number, and whether it is set.
    private: BTreeMap<u16, bool>,
    keypad: bool,
    margins: bool,
    cursor_shape: bool,
    /// Entries pushed on the keyboard protocol's stack.
    keyboard: u16,
    modify_keys: bool,
    within_line: bool,
    /// The same for the screen that is not seen now, the one of the shell or the alternate one.
    within_line_there: bool,
}

/// The modes a full-screen program uses, and whether a terminal starts with them on.
const PRIVATE: [(u16, bool); 20] = [
    (1, false),  // application cursor keys
    (6, false),  // origin mode
    (7, true),   // wrap at the margin
    (9, false),  // mouse: press only
    (25, true),  // the cursor is seen
    (47, false), // alternate screen, three generations
    (1047, false),
    (1049, false),
    (1000, false), // mouse: buttons, drags, everything; encodings
    (1002, false),
    (1003, false),
    (1004, false), // focus is told
    (1005, false),
    (1006, false),
    (1015, false),
    (1016, false),
    (2004, false), // bracketed paste
    (2026, false), // synchronized output
    (2031, false), // colour scheme is told
    (2048, false), // size is told
];

const ALTERNATE: [u16; 3] = [1049, 1047, 47];

impl ScreenModes {
    pub fn watch(&mut self, output: &[u8]) {
        self.parser.advance(&mut self.modes, output);
    }

    /// Whether the cursor is within a line, once [`ScreenModes::reset`] has put the terminal back.
    pub fn is_within_line(&self) -> bool {
        let modes = &self.modes;
        if modes.is_alternate() { modes.within_line_there } else { modes.within_line }
    }

    /// What puts the terminal back: empty attributes, and every mode that was left switched.
    pub fn reset(&self) -> Vec<u8> {
        let Modes { private, keypad, margins, cursor_shape, keyboard, modify_keys, .. } = &self.modes;
        let mut text = String::new();
        if *keyboard > 0 {
            let _ = write!(text, "\x1b[<{keyboard}u");
        }
        // First back to the screen the shell knows: some of the others are kept per screen.
        for mode in ALTERNATE.iter().filter(|mode| private.contains_key(mode)) {
            let _ = write!(text, "\x1b[?{mode}l");
        }
        for (mode, set) in private.iter().filter(|(mode, _)| !ALTERNATE.contains(mode)) {
            let _ = write!(text, "\x1b[?{mode}{}", if *set { 'l' } else { 'h' });
        }
        if *margins {
            // Setting margins moves the cursor: keep it where it is.
            text += "\x1b7\x1b[r\x1b8";
        }
        for (switched, sequence) in
            [(*keypad, "\x1b>"), (*modify_keys, "\x1b[>4m"), (*cursor_shape, "\x1b[0 q"), (true, "\x1b[0m")]
        {
            if switched {
                text += sequence;
            }
        }
        text.into_bytes()
    }
}

impl std::fmt::Debug for ScreenModes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScreenModes").field("private", &self.modes.private).finish_non_exhaustive()
    }
}

impl Modes {
    fn is_alternate(&self) -> bool {
        ALTERNATE.iter().any(|mode| self.private.contains_key(mode))
    }

    fn switch(&mut self, mode: u16, set: bool, default: bool) {
        let before = self.is_alternate();
        if set == default {
            self.private.remove(&mode);
        } else {
            self.private.insert(mode, set);
        }
        if self.is_alternate() != before {
            std::mem::swap(&mut self.within_line, &mut self.within_line_there);
        }
    }
}

impl Perform for Modes {
    fn print(&mut self, _c: char) {
        self.within_line = true;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.within_line = false,
            b'\t' => self.within_line = true,
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        let first = params.iter().next().and_then(<[u16]>::first).copied().unwrap_or(0);
        match (intermediates, action) {
            (b"?", 'h' | 'l') => {
                let set = action == 'h';
                for mode in params.iter().filter_map(<[u16]>::first) {
                    if let Some((_, default)) = PRIVATE.iter().find(|(known, _)| known == mode) {
                        self.switch(*mode, set, *default);
                    }
                }
            }
            // The cursor goes to a column, to a place, to the right, or to the start of another line.
            (b"", 'G' | '`') => self.within_line = first > 1,
            (b"", 'H' | 'f') => {
                let column = params.iter().nth(1).and_then(<[u16]>::first).copied().unwrap_or(0);
                self.within_line = column > 1;
            }
            (b"", 'C') => self.within_line = true,
            (b"", 'E' | 'F') => self.within_line = false,
            (b"", 'r') => self.margins = params.iter().flatten().any(|margin| *margin > 1),
            (b" ", 'q') => self.cursor_shape = first != 0,
            (b">", 'u') => self.keyboard = self.keyboard.saturating_add(1),
            (b"<", 'u') => self.keyboard = self.keyboard.saturating_sub(first.max(1)),
            (b">", 'm') if first == 4 => {
                self.modify_keys =
                    params.iter().nth(1).and_then(<[u16]>::first).is_some_and(|level| *level > 0);
            }
            (b"!", 'p') => {
                let Self { within_line, within_line_there, .. } = *self;
                let private = std::mem::take(&mut self.private);
                *self = Self { private, within_line, within_line_there, ..Self::default() };
            }
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (intermediates, byte) {
            (b"", b'=') => self.keypad = true,
            (b"", b'>') => self.keypad = false,
            (b"", b'E') => self.within_line = false,
            (b"", b'c') => *self = Self::default(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fed byte by byte: the hardest way to split it.
    fn reset_after(output: &str) -> String {
        let mut modes = ScreenModes::default();
        for byte in output.as_bytes() {
            modes.watch(&[*byte]);
        }
        String::from_utf8(modes.reset()).unwrap()
    }

    #[test]
    fn a_plain_program_leaves_nothing_to_switch_back() {
        assert_eq!(reset_after("hello\r\n\x1b[1;31mred\x1b[0m\x1b[?25l\x1b[?25h"), "\x1b[0m");
    }

    #[test]
    fn a_tidy_full_screen_program_leaves_nothing_either() {
        let output = "\x1b[?1049h\x1b[?25l\x1b[?1002;1006h\x1b[?2004h\x1b[>1u\x1b=\x1b[2;20r\
                      x\x1b[r\x1b>\x1b[<u\x1b[?2004l\x1b[?1002l\x1b[?1006l\x1b[?25h\x1b[?1049l";
        assert_eq!(reset_after(output), "\x1b[0m");
    }

    #[test]
    fn one_that_dies_is_cleaned_up_after() {
        let output =
            "\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?2004h\x1b[>1u\x1b[>4;2m\x1b[5 q\x1b=\x1b[2;20r";
        assert_eq!(
            reset_after(output),
            "\x1b[<1u\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b7\x1b[r\x1b8\x1b>\x1b[>4m\x1b[0 q\x1b[0m"
        );
    }

    #[test]
    fn a_cursor_within_a_line_is_seen() {
        for (output, within) in [
            ("", false),
            ("$ ", true),
            ("$ ls\r\n", false),
            ("a\r\n\x1b[1m$ \x1b[0m", true),
            ("ab\x1b[2K\r", false),
            ("x\x1b[12;1H", false),
            ("x\x1b[12;7H", true),
            ("\x1b[5C", true),
            ("abc\x1b[G", false),
            ("x\x1b[!p", true),
            // Whatever was on the other screen, the cursor is back where it was.
            ("\x1b[?1049hFULL", false),
            ("half\x1b[?1049h\x1b[1;1H", true),
            ("\x1b[?1049hFULL\x1b[?1049l", false),
            ("half\x1b[?1049h\r\x1b[?1049l", true),
        ] {
            let mut modes = ScreenModes::default();
            modes.watch(output.as_bytes());
            assert_eq!(modes.is_within_line(), within, "{output:?}");
        }
    }

    #[test]
    fn a_full_reset_by_the_program_counts() {
        assert_eq!(reset_after("\x1b[?1049h\x1b[?25l\x1b="), "\x1b[?1049l\x1b[?25h\x1b>\x1b[0m");
        assert_eq!(reset_after("\x1b[?1049h\x1b[?25l\x1b=\x1bc"), "\x1b[0m");
    }
}
