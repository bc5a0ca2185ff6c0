//! Words from guests, records and images are not ours: a name may carry codes that move the cursor, set
//! the window's title or turn text around. Nothing of that reaches the terminal.

/// The text on one line: escape sequences go, every other control character becomes a space.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text)
        .to_string()
        .chars()
        .filter(|c| !is_invisible(*c))
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The same for a text of several lines, whose line breaks and tabs stay.
pub fn plain_lines(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split('\t').map(plain).collect::<Vec<_>>().join("\t"))
        // Consoles write a carriage return before the line feed; it means nothing here.
        .map(|line| line.trim_end().to_string())
        .collect();
    lines.join("\n")
}

/// Characters without width of their own that reorder or hide others.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        for (hostile, shown) in [
            ("plain näme 日本", "plain näme 日本"),
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]52;c;aGk=\x1b\\x", "x"),
            ("a\rb\nc\x08d\x7f", "a b cd"),
            ("\u{9b}31mx", "31mx"),
            ("user\u{202e}txt.exe", "usertxt.exe"),
        ] {
            let clean = plain(hostile);
            assert!(!clean.chars().any(char::is_control), "{hostile:?} gave {clean:?}");
            assert_eq!(clean.trim_start(), shown, "{hostile:?}");
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(plain_lines("a\r\n\x1b[1mb\tc\n"), "a\nb\tc");
    }
}
