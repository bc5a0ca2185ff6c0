//! What the user is asked on the way to a start, and has answered.
//!
//! ```text
//!    ┌► a round, with its locks ─► a question ─► the round is over, and its locks are free ─► the answer ─┐
//!    └─ everything is looked at anew: the answer fits, falls away, or there is another question ◄─────────┘
//! ```

use std::ops::ControlFlow;

use sandbox_model::{Digest, SandboxName, VolumeName};

use super::stakes::Stake;
use crate::{
    Change, Context, Decisions, Declined, HomeChoice, HomeQuestion, Result, RunningChoice, RunningQuestion,
    SleepingQuestion,
};

/// A question, with all that its answer rests on.
#[derive(Debug, Clone)]
pub enum Question {
    Loss(Loss),
    NewImage(NewImage),
}

/// Something would be lost for what changed.
#[derive(Debug, Clone)]
pub struct Loss {
    pub sandbox: SandboxName,
    pub changes: Vec<Change>,
    pub stake: Stake,
    /// Another word for every boot of the sandbox, and for every rest.
    pub life: String,
}

impl Loss {
    fn covers(&self, now: &Self) -> bool {
        let told = now.changes.iter().all(|change| self.changes.contains(change));
        told && self.life == now.life && self.stake.covers(&now.stake)
    }

    fn put(&self, decisions: &dyn Decisions) -> RunningChoice {
        let (sandbox, changes) = (&self.sandbox, self.changes.as_slice());
        let running = |held| decisions.running(&RunningQuestion { sandbox, changes, held });
        match &self.stake {
            Stake::Held(held) => running(&held.reason),
            Stake::Programs => running("not used just now, but not asleep yet"),
            Stake::Memory(memory) => {
                decisions.sleeping(&SleepingQuestion { sandbox, changes, memory: *memory })
            }
        }
    }
}

/// The sandbox is about to be made anew with another image than its home comes from.
#[derive(Debug, Clone)]
pub struct NewImage {
    pub sandbox: SandboxName,
    pub volume: VolumeName,
    pub image: Digest,
    pub change: Option<Change>,
}

impl NewImage {
    fn put(&self, decisions: &dyn Decisions) -> HomeChoice {
        let Self { sandbox, volume, change, .. } = self;
        decisions.home(&HomeQuestion { sandbox, volume, change: change.as_ref() })
    }
}

/// The last answer to each kind of question. None is to quit.
#[derive(Debug, Default)]
pub struct Answers {
    loss: Option<(Loss, RunningChoice)>,
    home: Option<(NewImage, HomeChoice)>,
}

impl Answers {
    /// The answer, where it still fits; the question, where a person is to be asked first.
    pub fn to_loss(&self, context: &Context<'_>, now: &Loss) -> ControlFlow<Question, RunningChoice> {
        match &self.loss {
            // Who keeps loses nothing, whatever it is by now.
            Some((asked, choice)) if *choice == RunningChoice::Keep || asked.covers(now) => {
                ControlFlow::Continue(*choice)
            }
            _ => open(context, || Question::Loss(now.clone()), |decisions| now.put(decisions)),
        }
    }

    /// As [`Answers::to_loss`].
    pub fn to_new_image(&self, context: &Context<'_>, now: &NewImage) -> ControlFlow<Question, HomeChoice> {
        let same = |asked: &NewImage| asked.volume == now.volume && asked.image == now.image;
        match &self.home {
            Some((asked, choice)) if *choice == HomeChoice::Keep || same(asked) => {
                ControlFlow::Continue(*choice)
            }
            _ => open(context, || Question::NewImage(now.clone()), |decisions| now.put(decisions)),
        }
    }

    /// The user wants to lose nothing, and was asked.
    pub fn keep(&self) -> bool {
        matches!(self.loss, Some((_, RunningChoice::Keep)))
    }

    /// Asks a person. The caller holds no lock. Fails with [`Declined`] where the user quits.
    pub fn ask(&mut self, context: &Context<'_>, question: Question) -> Result<()> {
        let decisions = context.reporter.decisions();
        match question {
            Question::Loss(loss) => {
                tell_again(context, self.loss.is_some());
                let choice = loss.put(decisions);
                if choice == RunningChoice::Quit {
                    return Err(Declined::error());
                }
                self.loss = Some((loss, choice));
            }
            Question::NewImage(image) => {
                tell_again(context, self.home.is_some());
                let choice = image.put(decisions);
                if choice == HomeChoice::Quit {
                    return Err(Declined::error());
                }
                self.home = Some((image, choice));
            }
        }
        Ok(())
    }
}

/// A person is asked when the locks are free, and nobody at once.
fn open<T>(
    context: &Context<'_>,
    question: impl FnOnce() -> Question,
    put: impl FnOnce(&dyn Decisions) -> T,
) -> ControlFlow<Question, T> {
    let decisions = context.reporter.decisions();
    if decisions.takes_time() {
        ControlFlow::Break(question())
    } else {
        ControlFlow::Continue(put(decisions))
    }
}

fn tell_again(context: &Context<'_>, again: bool) {
    if again {
        context.reporter.info("it is not as it was when you were asked, so you are asked anew");
    }
}
