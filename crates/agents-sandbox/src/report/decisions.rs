use sandbox_lifecycle::{
    Decisions, HomeChoice, HomeQuestion, RunningChoice, RunningQuestion, VersionChoice, VersionQuestion,
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
        for change in question.changes {
            lines.write(&super::plain(&format!("  {change}")));
        }
        lines.write("  keep      go on with it as it is; the changes wait for its next start (the default)");
        lines.write("  proceed   start it again now, which cuts the others off");
        lines.write("  quit      change nothing and leave");
        match self.still(|| choose("keep, proceed or quit?", &["keep", "proceed", "quit"])) {
            Ok(Some(1)) => RunningChoice::Proceed,
            Ok(Some(2) | None) => RunningChoice::Quit,
            Ok(Some(_)) | Err(_) => RunningChoice::Keep,
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
