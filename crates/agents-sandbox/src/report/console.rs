use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressDrawTarget};

use super::plain_lines;
use crate::commands::args::LogLevel;
use crate::terminal::can_ask;

/// Messages to the person at the terminal, on stderr.
#[derive(Debug)]
pub struct Console {
    level: AtomicU8,
    started: Instant,
    /// The user wants no questions.
    yes: AtomicBool,
    lines: Lines,
}

/// Writes whole lines between the moving ones. Cheap to clone, for threads and callbacks.
#[derive(Debug, Clone)]
pub struct Lines {
    bars: MultiProgress,
    muted: bool,
}

impl Lines {
    /// Colours are dropped where stderr takes none; a stderr that is gone is no reason to fail.
    pub fn write(&self, text: &str) {
        if self.muted {
            return;
        }
        self.bars.suspend(|| {
            let mut stderr = anstream::AutoStream::auto(std::io::stderr().lock());
            let _ = stderr.write_all(format!("{text}\n").as_bytes());
        });
    }
}

impl Console {
    pub fn new(level: LogLevel) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let lines = Lines { bars: MultiProgress::with_draw_target(target), muted: false };
        Self {
            level: AtomicU8::new(level as u8),
            started: Instant::now(),
            yes: AtomicBool::new(false),
            lines,
        }
    }

    pub fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    pub fn set_yes(&self, yes: bool) {
        self.yes.store(yes, Ordering::Relaxed);
    }

    pub fn may_ask(&self) -> bool {
        !self.yes.load(Ordering::Relaxed) && can_ask()
    }

    /// Does something on the terminal while no line moves on it.
    pub fn still<T>(&self, act: impl FnOnce() -> T) -> T {
        self.lines.bars.suspend(act)
    }

    /// A person watches: steps are moving lines.
    pub fn is_live(&self) -> bool {
        !self.lines.bars.is_hidden()
    }

    pub const fn bars(&self) -> &MultiProgress {
        &self.lines.bars
    }

    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// For remarks of importance info from places that know no console.
    pub fn notices(&self) -> Lines {
        Lines { muted: !self.shows(LogLevel::Info), ..self.lines.clone() }
    }

    pub fn shows(&self, level: LogLevel) -> bool {
        level as u8 <= self.level.load(Ordering::Relaxed)
    }

    pub fn info(&self, text: &str) {
        if self.shows(LogLevel::Info) {
            self.lines.write(&plain_lines(text));
        }
    }

    pub fn warning(&self, text: &str) {
        if self.shows(LogLevel::Warning) {
            self.lines.write(&labelled("warning", AnsiColor::Yellow.on_default().bold(), text));
        }
    }

    /// The rendered lines of an error, which every level shows.
    pub fn error(&self, rendered: &str) {
        self.lines.write(rendered);
    }

    /// With the seconds since the program began, for finding out what takes long.
    pub fn verbose(&self, text: &str) {
        if self.shows(LogLevel::Verbose) {
            let dim = Style::new().dimmed();
            let seconds = self.started.elapsed().as_secs_f64();
            self.lines.write(&format!("{dim}{seconds:7.3}{dim:#} {}", plain_lines(text)));
        }
    }
}

/// `word:` in its style, then the text.
pub fn labelled(word: &str, style: Style, text: &str) -> String {
    format!("{style}{word}:{style:#} {}", plain_lines(text))
}
