use std::io::{IsTerminal, Write};
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressDrawTarget};

use super::plain_lines;
use crate::commands::args::LogLevel;

/// Messages to the person at the terminal, on stderr.
#[derive(Debug)]
pub struct Console {
    level: LogLevel,
    started: Instant,
    /// A person watches: steps are moving lines.
    live: bool,
    lines: Lines,
}

/// Writes whole lines between the moving ones. Cheap to clone, for threads.
#[derive(Debug, Clone)]
pub struct Lines {
    bars: MultiProgress,
}

impl Lines {
    /// Colours are dropped where stderr takes none; a stderr that is gone is no reason to fail.
    pub fn write(&self, text: &str) {
        self.bars.suspend(|| {
            let mut stderr = anstream::AutoStream::auto(std::io::stderr().lock());
            let _ = stderr.write_all(format!("{text}\n").as_bytes());
        });
    }
}

impl Console {
    pub fn new(level: LogLevel) -> Self {
        // Where every step is told on lines of its own, moving ones would only be in the way.
        let live = level == LogLevel::Info && std::io::stderr().is_terminal();
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let lines = Lines { bars: MultiProgress::with_draw_target(target) };
        Self { level, started: Instant::now(), live, lines }
    }

    pub const fn is_live(&self) -> bool {
        self.live
    }

    pub const fn bars(&self) -> &MultiProgress {
        &self.lines.bars
    }

    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }

    pub fn shows(&self, level: LogLevel) -> bool {
        level <= self.level
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
