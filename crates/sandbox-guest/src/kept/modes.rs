use std::collections::BTreeMap;
use std::fmt::Write as _;

use vt100::{Callbacks, Screen};

/// Private modes that a full-screen program switches and the screen does not know, and whether a terminal
/// starts with them on: wrap at the margin; the reports of focus, colour scheme and size.
const PRIVATE: [(u16, bool); 4] = [(7, true), (1004, false), (2031, false), (2048, false)];
/// Flags that programs have pushed on the stack of the keyboard protocol.
const PUSHED: usize = 16;
const TITLE: usize = 256;

/// The part of a terminal's state that is not on its screen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Modes {
    private: BTreeMap<u16, bool>,
    keyboard: Vec<u16>,
    modify_keys: u16,
    title: Vec<u8>,
}

impl Modes {
    /// What switches a terminal to this: one that has followed and lost track, or a new one.
    pub fn write(&self, text: &mut String, is_new: bool) {
        for (mode, default) in PRIVATE {
            let set = self.private.get(&mode).copied().unwrap_or(default);
            let _ = write!(text, "\x1b[?{mode}{}", if set { 'h' } else { 'l' });
        }
        if !is_new {
            // How much is on a stack that has lost track is not known. A new one's is not ours to empty.
            let _ = write!(text, "\x1b[<{PUSHED}u");
        }
        for flags in &self.keyboard {
            let _ = write!(text, "\x1b[>{flags}u");
        }
        let _ = write!(text, "\x1b[>4;{}m", self.modify_keys);
        if let Ok(title) = str::from_utf8(&self.title)
            && !title.is_empty()
        {
            let _ = write!(text, "\x1b]2;{title}\x07");
        }
    }
}

impl Callbacks for Modes {
    fn set_window_title(&mut self, _: &mut Screen, title: &[u8]) {
        title[..title.len().min(TITLE)].clone_into(&mut self.title);
    }

    fn unhandled_csi(
        &mut self,
        _: &mut Screen,
        first: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        action: char,
    ) {
        let number = |index: usize| params.get(index).and_then(|param| param.first()).copied().unwrap_or(0);
        match (first, action) {
            (Some(b'?'), 'h' | 'l') => {
                for mode in params.iter().filter_map(|param| param.first()) {
                    if PRIVATE.iter().any(|(known, _)| known == mode) {
                        self.private.insert(*mode, action == 'h');
                    }
                }
                self.private.retain(|mode, set| !PRIVATE.contains(&(*mode, *set)));
            }
            (Some(b'>'), 'u') if self.keyboard.len() < PUSHED => self.keyboard.push(number(0)),
            (Some(b'<'), 'u') => {
                let left = self.keyboard.len().saturating_sub(usize::from(number(0).max(1)));
                self.keyboard.truncate(left);
            }
            (Some(b'='), 'u') => {
                if let Some(flags) = self.keyboard.last_mut() {
                    let wish = number(0);
                    *flags = match number(1) {
                        2 => *flags | wish,
                        3 => *flags & !wish,
                        _ => wish,
                    };
                }
            }
            (Some(b'>'), 'm') if number(0) == 4 => self.modify_keys = number(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use vt100::Parser;

    use super::*;

    fn after(output: &str) -> Modes {
        let size = NonZeroU16::new(9).unwrap();
        let mut parser = Parser::new_with_callbacks(size, size, 0, Modes::default());
        // Byte by byte: the hardest way to split it.
        for byte in output.as_bytes() {
            parser.process(&[*byte]);
        }
        std::mem::take(parser.callbacks_mut())
    }

    #[test]
    fn what_is_switched_and_switched_back_is_as_it_began() {
        assert_eq!(
            after("\x1b[?7l\x1b[?1004;2004h\x1b[>1u\x1b[>4;2m\x1b[<u\x1b[>4m\x1b[?7h\x1b[?1004l"),
            Modes::default()
        );
    }

    #[test]
    fn what_is_written_leads_to_the_same() {
        let modes = after("\x1b[?7l\x1b[?1004;2004h\x1b[>1u\x1b[>3u\x1b[=4;2u\x1b[>4;2m\x1b]2;a title\x07");
        assert_eq!(modes.keyboard, [1, 7]);
        let mut text = String::new();
        modes.write(&mut text, false);
        assert_eq!(after(&text), modes);
        assert_eq!(after(&format!("\x1b[?2031h\x1b[>31u{text}")), modes, "whatever it was before");
    }
}
