use sandbox_lifecycle::{
    Change, Decisions, HomeChoice, HomeQuestion, RunningChoice, RunningQuestion, ServerChoice,
    ServerQuestion, SleepingQuestion, VersionChoice, VersionQuestion,
};

use super::Console;
use crate::terminal::choose;

/// What a person at the terminal answers. A prompt that fails keeps everything as it is; Ctrl-C quits.
impl Decisions for Console {
    fn running(&self, question: &RunningQuestion<'_>) -> RunningChoice {
        let lines = self.lines();
        lines.write(&format!(
            "{} is {}, and has to start again for what changed:",
            question.sandbox, question.held
        ));
        self.list(question.changes);
        lines.write("  keep      go on with it as it is; the changes wait for its next start (the default)");
        lines.write("  proceed   start it again now, which ends what runs in it and cuts others off");
        lines.write("  quit      change nothing and leave");
        match self.still(|| choose("keep, proceed or quit?", &["keep", "proceed", "quit"])) {
            Ok(Some(1)) => RunningChoice::Proceed,
            Ok(Some(2) | None) => RunningChoice::Quit,
            Ok(Some(_)) | Err(_) => RunningChoice::Keep,
        }
    }

    fn sleeping(&self, question: &SleepingQuestion<'_>) -> RunningChoice {
        let lines = self.lines();
        lines.write(&format!(
            "{} sleeps: its memory is saved ({}), and ends with what changed:",
            question.sandbox,
            question.memory.human()
        ));
        self.list(question.changes);
        lines.write("  wake      wake it as it was; the changes wait (the default)");
        lines.write("  apply     start it with the changes, and lose what runs in its memory");
        lines.write("  quit      change nothing and leave");
        match self.still(|| choose("wake, apply or quit?", &["wake", "apply", "quit"])) {
            Ok(Some(1)) => RunningChoice::Proceed,
            Ok(Some(2) | None) => RunningChoice::Quit,
            Ok(Some(_)) | Err(_) => RunningChoice::Keep,
        }
    }

    fn server(&self, question: &ServerQuestion<'_>) -> ServerChoice {
        let lines = self.lines();
        lines.write(&format!(
            "The configuration of {} changed, and its server in {}, which is {}, has to start again for it:",
            question.agent, question.sandbox, question.held
        ));
        lines.write("  keep      it goes on, and reads the new one when it next starts (the default)");
        lines.write("  restart   start it again now, which interrupts its sessions");
        lines.write("  quit      change nothing and leave");
        match self.still(|| choose("keep, restart or quit?", &["keep", "restart", "quit"])) {
            Ok(Some(1)) => ServerChoice::Restart,
            Ok(Some(2) | None) => ServerChoice::Quit,
            Ok(Some(_)) | Err(_) => ServerChoice::Keep,
        }
    }

    fn home(&self, question: &HomeQuestion<'_>) -> HomeChoice {
        let lines = self.lines();
        let change = question.change.map(|change| format!(" ({change})")).unwrap_or_default();
        lines.write(&super::plain(&format!(
            "The image changed{change}. What becomes of the home volume {}?",
            question.volume
        )));
        lines.write("  keep      go on with it (the default)");
        lines.write("  reset     a new home from the image; the agent's settings and sessions start anew");
        lines.write("  migrate   a new home from the image, with all files of this one on top");
        lines.write("  quit      change nothing and leave");
        match self.still(|| choose("keep, reset, migrate or quit?", &["keep", "reset", "migrate", "quit"])) {
            Ok(Some(1)) => HomeChoice::Reset,
            Ok(Some(2)) => HomeChoice::Migrate,
            Ok(Some(3) | None) => HomeChoice::Quit,
            Ok(Some(_)) | Err(_) => HomeChoice::Keep,
        }
    }

    fn version(&self, question: &VersionQuestion<'_>) -> VersionChoice {
        let lines = self.lines();
        let VersionQuestion { agent, installed, newest } = question;
        lines.write(&super::plain(&format!("{agent} {newest} is out; this sandbox has {installed}.")));
        lines.write("  upgrade   build the image with it, which takes a few minutes (the default)");
        lines.write("  keep      go on with the one that is there; this version is not offered again");
        lines.write("  quit      change nothing and leave");
        match self.still(|| choose("upgrade, keep or quit?", &["upgrade", "keep", "quit"])) {
            Ok(Some(0)) => VersionChoice::Upgrade,
            Ok(Some(1)) => VersionChoice::Keep,
            Ok(_) => VersionChoice::Quit,
            Err(_) => VersionChoice::Tell,
        }
    }
}

impl Console {
    fn list(&self, changes: &[Change]) {
        for change in changes {
            self.lines().write(&super::plain(&format!("  {change}")));
        }
    }
}
