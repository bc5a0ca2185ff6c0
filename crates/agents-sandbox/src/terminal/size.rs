use std::io::IsTerminal;

use rustix::termios::tcgetwinsize;
use sandbox_model::TermSize;

/// The size of the user's terminal: that of stdout, or of stdin where stdout goes elsewhere. `None` where
/// neither is one.
pub fn terminal_size() -> Option<TermSize> {
    let (stdout, stdin) = (std::io::stdout(), std::io::stdin());
    let size = if stdout.is_terminal() {
        tcgetwinsize(&stdout)
    } else if stdin.is_terminal() {
        tcgetwinsize(&stdin)
    } else {
        return None;
    };
    // Serial lines and some editors say 0×0, with which nothing can be drawn.
    let known = size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    Some(
        known.map_or(TermSize { cols: 80, rows: 24 }, |size| TermSize {
            cols: size.ws_col,
            rows: size.ws_row,
        }),
    )
}
