use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandbox_lifecycle::Step;

use super::{Console, plain};
use crate::commands::args::LogLevel;

/// A step that is done sooner is not worth a word.
const PATIENCE: Duration = Duration::from_millis(200);
const FRAME: Duration = Duration::from_millis(100);
/// Where no line can move, one is written for what is new, and now and then to say that it goes on.
const NEWS: Duration = Duration::from_secs(2);
const REMINDER: Duration = Duration::from_secs(10);
/// A step that took longer leaves a line on the terminal.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

/// A step under way. On a terminal it is a moving line that goes when the step ends; elsewhere a line,
/// and another for what is new; for those who asked for details, lines with times.
pub(super) struct RunningStep<'a> {
    console: &'a Console,
    title: String,
    began: Instant,
    bar: ProgressBar,
    detail: Arc<Mutex<String>>,
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
    finished: bool,
}

impl<'a> RunningStep<'a> {
    pub(super) fn new(console: &'a Console, title: String) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
            .with_style(style("{spinner:.cyan} {prefix} {wide_msg:.dim}"))
            .with_prefix(title.clone());
        let detail = Arc::default();
        let watcher = if console.shows(LogLevel::Verbose) {
            console.verbose(&format!("{title} …"));
            None
        } else if console.shows(LogLevel::Info) {
            Some(watch(console, &title, &bar, Arc::clone(&detail)))
        } else {
            None
        };
        Self { console, title, began: Instant::now(), bar, detail, watcher, finished: false }
    }

    /// The watcher draws: it must be gone before the line is taken away, or it would come back.
    fn end_watch(&mut self) {
        if let Some((stop, thread)) = self.watcher.take() {
            drop(stop);
            let _ = thread.join();
            self.bar.finish_and_clear();
        }
    }
}

fn watch(
    console: &Console,
    title: &str,
    bar: &ProgressBar,
    detail: Arc<Mutex<String>>,
) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = channel::<()>();
    let (live, bars, bar, title) =
        (console.is_live(), console.bars().clone(), bar.clone(), title.to_string());
    let lines = console.lines();
    let thread = std::thread::spawn(move || {
        if stopped.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        if live {
            let bar = bars.add(bar);
            bar.enable_steady_tick(FRAME);
            return;
        }
        let began = Instant::now();
        lines.write(&format!("{title} …"));
        let (mut last, mut told) = (began, String::new());
        while stopped.recv_timeout(NEWS) == Err(RecvTimeoutError::Timeout) {
            let now = detail.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if now == told && last.elapsed() < REMINDER {
                continue;
            }
            let shown = if now.is_empty() { String::new() } else { format!(": {now}") };
            lines.write(&format!("{title} … {} s{shown}", began.elapsed().as_secs()));
            (last, told) = (Instant::now(), now);
        }
    });
    (stop, thread)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Step for RunningStep<'_> {
    fn progress(&mut self, done: u64, total: Option<u64>) {
        let shown = if let Some(total) = total {
            if self.bar.length().is_none() {
                self.bar.set_length(total);
                self.bar.set_style(style(
                    "{spinner:.cyan} {prefix} {bar:24.cyan/dim} {binary_bytes}/{binary_total_bytes} {wide_msg:.dim}",
                ));
            }
            format!("{} of {}", HumanBytes(done), HumanBytes(total))
        } else {
            self.bar.set_message(HumanBytes(done).to_string());
            HumanBytes(done).to_string()
        };
        self.bar.set_position(done);
        *self.detail.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    fn detail(&mut self, text: &str) {
        let text = plain(text);
        self.bar.set_message(text.clone());
        self.console.verbose(&text);
        *self.detail.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn finish(mut self: Box<Self>, summary: Option<&str>) {
        self.finished = true;
        self.end_watch();
        let took = self.began.elapsed();
        let summary = summary.map(|summary| format!(": {}", plain(summary))).unwrap_or_default();
        let line = format!("{}{summary} ({:.1} s)", self.title, took.as_secs_f64());
        if self.console.shows(LogLevel::Verbose) {
            self.console.verbose(&line);
        } else if took >= WORTH_A_LINE {
            self.console.info(&line);
        }
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        self.end_watch();
        if !self.finished {
            let seconds = self.began.elapsed().as_secs_f64();
            self.console.verbose(&format!("{} failed after {seconds:.1} s", self.title));
        }
    }
}
