use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_model::{Keep, TermSize};
use sandbox_wire::ExecRequest;

use super::session::{Birth, Session};
use crate::exec::Process;

/// Commands that are kept at once.
const MOST: usize = 32;
/// Ended ones that nobody has seen the end of; of more, the oldest are forgotten.
const MOST_ENDED: usize = 16;

/// The sessions of this boot.
#[derive(Default)]
pub struct Registry(Mutex<Sessions>);

#[derive(Default)]
struct Sessions {
    last: u32,
    all: BTreeMap<u32, Arc<Session>>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a command that was just started on a terminal of `size`, and gives its first client. Gives the
    /// command back where there are too many already. Inside a tokio runtime.
    pub fn begin(
        &self,
        process: Process,
        keep: &Keep,
        request: &ExecRequest,
        size: TermSize,
    ) -> Result<(Arc<Session>, u64), Box<Process>> {
        let mut sessions = self.lock();
        let (ended, running): (Vec<u32>, Vec<u32>) =
            sessions.all.keys().partition(|id| sessions.all[id].ended().is_some());
        for id in ended.iter().take(ended.len().saturating_sub(MOST_ENDED)) {
            sessions.all.remove(id);
        }
        let Some(terminal) = process.terminal.clone().filter(|_| running.len() < MOST) else {
            return Err(Box::new(process));
        };
        sessions.last += 1;
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let birth = Birth {
            id: sessions.last,
            keep: keep.clone(),
            cwd: request.cwd.clone(),
            user: request.user.clone(),
            created: since_1970.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX)),
            size,
        };
        let Process { child, group, .. } = process;
        let (session, client) = Session::begin(birth, child, group, terminal);
        sessions.all.insert(session.id, Arc::clone(&session));
        Ok((session, client))
    }

    /// Running or ended; `None` where there is none, or it was forgotten.
    pub fn find(&self, id: u32) -> Option<Arc<Session>> {
        self.lock().all.get(&id).cloned()
    }

    /// Somebody has seen its end.
    pub fn forget(&self, id: u32) {
        self.lock().all.remove(&id);
    }

    /// Running ones and those that ended unseen, in the order of their begin.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.lock().all.values().cloned().collect()
    }
}
