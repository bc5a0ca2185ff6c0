//! Which command on a terminal may be joined instead of a new one begun.

use std::ffi::OsString;

use sandbox_model::{Keep, KeptSession, SandboxName};
use sandbox_runtime::RuntimeError;

use crate::{Context, Daemon, Result, Up};

const AGENT: &str = "agent";

/// One shell is as good as another of the same user, wherever it was opened.
pub(crate) fn shell(root: bool) -> Keep {
    let kind = if root { "root-shell" } else { "shell" };
    Keep { kind: kind.into(), key: String::new(), title: "bash".into() }
}

/// An agent is as good as another in the same folder, without words of its own, of the same server.
pub(crate) fn agent(up: &Up, password: &str, args: &[OsString]) -> Keep {
    let words = args.iter().map(|word| word.to_string_lossy());
    let title = std::iter::once(up.profile.name.as_str().into()).chain(words).collect::<Vec<_>>().join(" ");
    let own = if args.is_empty() { "" } else { "words" };
    Keep { kind: AGENT.into(), key: format!("{own}\n{}\n{password}", up.guest_dir), title }
}

/// The session without a terminal that a command begun with `keep` would be like: the latest. `None` where
/// there is none, or where the runtime keeps none.
pub fn detached_session(
    context: &Context<'_>,
    name: &SandboxName,
    keep: &Keep,
) -> Result<Option<KeptSession>> {
    Ok(choose(&context.runtime.sessions(name)?, keep).cloned())
}

fn choose<'a>(sessions: &'a [KeptSession], keep: &Keep) -> Option<&'a KeptSession> {
    let is_alike = |session: &&KeptSession| {
        session.is_detached() && session.keep.kind == keep.kind && session.keep.key == keep.key
    };
    // What an agent was told to do is its own, however often it is said.
    sessions.iter().rev().filter(|_| !keep.key.starts_with("words")).find(is_alike)
}

/// Sessions of a kind that have ended while nobody was attached.
pub fn unseen_ends(context: &Context<'_>, name: &SandboxName, keep: &Keep) -> Result<Vec<KeptSession>> {
    let mut sessions = context.runtime.sessions(name)?;
    sessions.retain(|session| session.ended.is_some() && session.keep.kind == keep.kind);
    Ok(sessions)
}

/// Ends clients of a server that is gone, which nobody looks at: a restarted server has another password.
pub fn end_lost_clients(context: &Context<'_>, name: &SandboxName, daemon: &Daemon) -> Result<()> {
    for session in lost_clients(&context.runtime.sessions(name)?, &daemon.password) {
        match context.runtime.end_session(name, session) {
            // Another client was faster, or it ended by itself.
            Err(RuntimeError::NoSuchSession { .. }) | Ok(_) => {}
            // Nobody's own work waits for that.
            Err(error) => {
                context.reporter.verbose(&format!("session {session} of a lost server stays: {error}"));
            }
        }
    }
    Ok(())
}

fn lost_clients(sessions: &[KeptSession], password: &str) -> Vec<u32> {
    let is_lost = |session: &&KeptSession| {
        session.clients == 0 && session.keep.kind == AGENT && !session.keep.key.ends_with(password)
    };
    sessions.iter().filter(is_lost).map(|session| session.id).collect()
}

#[cfg(test)]
mod tests {
    use sandbox_model::{ExitStatus, TermSize};

    use super::*;

    fn session(id: u32, kind: &str, key: &str, clients: u32) -> KeptSession {
        KeptSession {
            id,
            keep: Keep { kind: kind.into(), key: key.into(), title: String::new() },
            cwd: "/workspace".into(),
            user: "dev".into(),
            created: 0,
            size: TermSize { cols: 80, rows: 24 },
            clients,
            ended: None,
        }
    }

    fn id(sessions: &[KeptSession], keep: &Keep) -> Option<u32> {
        choose(sessions, keep).map(|session| session.id)
    }

    #[test]
    fn the_latest_of_the_kind_that_nobody_looks_at() {
        let mut sessions = [
            session(1, "shell", "", 0),
            session(2, "shell", "", 0),
            session(3, "shell", "", 1),
            session(4, "root-shell", "", 0),
        ];
        assert_eq!(id(&sessions, &shell(false)), Some(2));
        assert_eq!(id(&sessions, &shell(true)), Some(4));
        sessions[1].ended = Some(ExitStatus::SUCCESS);
        assert_eq!(id(&sessions, &shell(false)), Some(1));
        sessions[0].clients = 1;
        assert_eq!(id(&sessions, &shell(false)), None);
    }

    #[test]
    fn an_agent_with_words_or_of_another_folder_is_another() {
        let sessions =
            [session(1, AGENT, "\n/workspace\nold", 0), session(2, AGENT, "words\n/workspace\nnew", 0)];
        let keep = |key: &str| Keep { kind: AGENT.into(), key: key.into(), title: String::new() };
        assert_eq!(id(&sessions, &keep("\n/workspace\nold")), Some(1));
        assert_eq!(id(&sessions, &keep("\n/workspace/src\nold")), None);
        assert_eq!(id(&sessions, &keep("words\n/workspace\nnew")), None);
        assert_eq!(lost_clients(&sessions, "new"), [1]);
        assert_eq!(lost_clients(&sessions, ""), [0; 0], "an agent without a server loses none");
    }
}
