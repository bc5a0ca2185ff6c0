//! Tells the user what the agent's sessions come to, while a client is attached: the server's events, what of
//! them is worth a word, who of several clients says it, and how.
//!
//! ```text
//! /global/event ─► SessionWatch ─► an occasion that is wanted? ─► claim ─► desktop, sound, bell
//! ```

mod channel;
mod claims;
mod pace;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sandbox_config::{NotifyAudio, Origin, Settings};
use sandbox_lifecycle::{AgentProfile, Context, Daemon, Notice, Occasion, SessionWatch, Up, events};
use sandbox_runtime::Runtime;
use sandbox_state::SandboxFiles;

use crate::agents_with::agents_with;
use crate::error::CommandError;
use claims::Claims;
use pace::Pace;

/// Between two tries to reach the server: doubled up to the longest; a stream that lived a while begins anew.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is told, and how.
#[derive(Debug, Clone)]
pub struct Wishes {
    desktop: bool,
    audio: NotifyAudio,
    occasions: Vec<Occasion>,
}

impl Wishes {
    /// `None` where no channel is on. An agent that does not tell is an error when the user asks for it here
    /// and now, and a remark otherwise.
    pub fn of(
        settings: &Settings,
        profile: &AgentProfile,
        remark: impl FnOnce(&str),
    ) -> Result<Option<Self>, CommandError> {
        let (desktop, audio) = (settings.notify_desktop.value, settings.notify_audio.value);
        if !desktop && audio == NotifyAudio::Off {
            return Ok(None);
        }
        if !profile.daemon.as_ref().is_some_and(|daemon| daemon.session_status) {
            let text =
                format!("{} does not tell what its sessions do, so there are no notifications", profile.name);
            let asked = |origin: &Origin| matches!(origin, Origin::Flag { .. } | Origin::Env { .. });
            if asked(&settings.notify_desktop.origin) || asked(&settings.notify_audio.origin) {
                return Err(CommandError::new(text)
                    .hint(format!("{} does", agents_with(|server| server.session_status))));
            }
            remark(&text);
            return Ok(None);
        }
        let wanted = [
            (Occasion::Input, settings.notify_on_input.value),
            (Occasion::Done, settings.notify_on_done.value),
            (Occasion::Error, settings.notify_on_error.value),
        ];
        let occasions =
            wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(occasion, _)| occasion).collect();
        Ok(Some(Self { desktop, audio, occasions }))
    }
}

/// Listens in a thread until the process ends. Nothing is printed: the terminal is the agent's.
pub fn start(
    context: &Context<'_>,
    files: &SandboxFiles,
    up: &Up,
    daemon: &Daemon,
    profile: &'static AgentProfile,
    project: &str,
    wishes: Wishes,
) -> std::io::Result<()> {
    let listener = Listener {
        runtime: Arc::clone(&context.runtime),
        up_name: up.name.clone(),
        daemon: daemon.clone(),
        profile,
        project: project.into(),
        wishes,
        claims: Claims::new(files.claims()),
        pace: Pace::default(),
    };
    thread::Builder::new().name("notify".into()).spawn(move || listener.run())?;
    Ok(())
}

struct Listener {
    runtime: Arc<dyn Runtime>,
    up_name: sandbox_model::SandboxName,
    daemon: Daemon,
    profile: &'static AgentProfile,
    project: String,
    wishes: Wishes,
    claims: Claims,
    pace: Pace,
}

impl Listener {
    fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            self.listen();
            if begun.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Until the stream ends; what happened in a gap is not told later.
    fn listen(&mut self) {
        let runtime = Arc::clone(&self.runtime);
        let Ok(mut events) = events(runtime.as_ref(), &self.up_name, self.profile, &self.daemon) else {
            return;
        };
        let mut watch = SessionWatch::default();
        while let Ok(Some(event)) = events.hear() {
            match watch.see(&event) {
                Some(Notice::Works { session }) => self.claims.release(&session),
                Some(Notice::Tell { session, occasion })
                    if self.wishes.occasions.contains(&occasion)
                        && self.pace.has_room(Instant::now())
                        && self.claims.take(&session, occasion) =>
                {
                    self.pace.count(Instant::now());
                    self.tell(occasion);
                }
                _ => {}
            }
        }
    }

    fn tell(&self, occasion: Occasion) {
        let what = match occasion {
            Occasion::Input => "waits for you",
            Occasion::Done => "is done",
            Occasion::Error => "has failed",
        };
        let title = format!("{} {what}", self.profile.name);
        if self.wishes.desktop {
            channel::desktop(&title, &self.project, occasion == Occasion::Input);
        }
        match self.wishes.audio {
            NotifyAudio::Off => {}
            NotifyAudio::Bell => channel::bell(),
            NotifyAudio::System => channel::sound(),
        }
    }
}
