use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_model::TermSize;
use tokio::sync::Notify;

use super::picture::Picture;

/// Bytes that may wait for a client before the program has to.
const QUEUE: usize = 256 * 1024;
/// Short pieces of output become one of up to this.
const PIECE: usize = 32 * 1024;
/// How often a terminal of another size is drawn at the most.
const FRAME: Duration = Duration::from_millis(50);

/// What a client gets next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Bytes(Vec<u8>),
    Later(Duration),
    Nothing,
}

/// The terminals attached to one session, and what each of them still has to get.
///
/// One that is as large as the session gets what the program writes. A larger one, or one that was left
/// behind, is drawn anew.
#[derive(Default)]
pub struct Clients {
    all: BTreeMap<u64, Client>,
    next: u64,
    /// Who typed last, or came after that.
    active: Option<u64>,
}

struct Client {
    size: TermSize,
    /// It gets what the program writes: its size is the session's.
    follows: bool,
    /// It does not show what the session shows.
    lost: bool,
    /// The alternate screen is what it shows, and what is below that is not the session's.
    alone: bool,
    /// Output, and whether the alternate screen is shown after it.
    queue: VecDeque<(Vec<u8>, bool)>,
    queued: usize,
    alternate: bool,
    drawn: Option<Instant>,
    wake: Arc<Notify>,
}

impl Clients {
    /// Adds one that has nothing to get yet.
    pub fn join(&mut self, size: TermSize) -> u64 {
        let id = self.next;
        self.next += 1;
        let client = Client {
            size,
            follows: true,
            lost: false,
            alone: false,
            queue: VecDeque::new(),
            queued: 0,
            alternate: false,
            drawn: None,
            wake: Arc::default(),
        };
        self.all.insert(id, client);
        self.active = Some(id);
        id
    }

    /// Gives a newcomer the whole picture first.
    pub fn introduce(&mut self, id: u64, picture: &mut Picture) {
        if let Some(client) = self.all.get_mut(&id) {
            let alternate = picture.is_alternate();
            client.alone = alternate;
            // It holds both, for a client of either size.
            client.lost = false;
            client.push(picture.for_newcomer(client.size), alternate);
        }
    }

    /// Takes one away. Where it was the one to answer for the terminal, the newest that is left is.
    pub fn leave(&mut self, id: u64) {
        self.all.remove(&id);
        if self.active == Some(id) {
            self.active = self.all.keys().next_back().copied();
        }
    }

    /// How many are attached now.
    pub fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Its own terminal has this size now; what the session's is follows from all of them.
    pub fn resize(&mut self, id: u64, size: TermSize) {
        if let Some(client) = self.all.get_mut(&id) {
            client.size = size;
        }
    }

    /// The size that fits into every terminal; `None` without any.
    pub fn smallest(&self) -> Option<TermSize> {
        let sizes = || self.all.values().map(|client| client.size);
        Some(TermSize { cols: sizes().map(|s| s.cols).min()?, rows: sizes().map(|s| s.rows).min()? })
    }

    /// The session has this size now.
    pub fn fit(&mut self, size: TermSize) {
        for client in self.all.values_mut() {
            let follows = client.size == size;
            if !follows || !client.follows {
                client.lose();
            }
            client.follows = follows;
        }
    }

    /// Hands output on that the picture has followed; `was_alternate` is what it showed before.
    pub fn feed(&mut self, output: &[u8], was_alternate: bool, picture: &Picture) {
        let alternate = picture.is_alternate();
        for client in self.all.values_mut() {
            if client.alone && was_alternate && !alternate {
                client.alone = false;
                client.lose();
            } else if !client.follows {
                client.lose();
            } else if !client.lost {
                client.push(output.to_vec(), alternate);
            }
        }
    }

    /// Whether the program has to wait for one of them.
    pub fn are_crowded(&self) -> bool {
        self.all.values().any(|client| client.queued > QUEUE)
    }

    /// Leaves those behind that the program has waited for in vain.
    pub fn leave_slow_behind(&mut self) {
        self.all.values_mut().filter(|client| client.queued > QUEUE).for_each(Client::lose);
    }

    /// What to send to this client next. One that was too slow gets the picture as it is now, at most once in
    /// `FRAME`.
    pub fn next(&mut self, id: u64, picture: &mut Picture, ended: bool) -> Next {
        let Some(client) = self.all.get_mut(&id) else { return Next::Nothing };
        if let Some((bytes, alternate)) = client.queue.pop_front() {
            client.queued -= bytes.len();
            client.alternate = alternate;
            return Next::Bytes(bytes);
        }
        if !client.lost {
            return Next::Nothing;
        }
        if let Some(left) = client.drawn.and_then(|drawn| FRAME.checked_sub(drawn.elapsed()))
            && !ended
        {
            return Next::Later(left);
        }
        client.lost = false;
        client.drawn = Some(Instant::now());
        let bytes = picture.again(client.alternate);
        client.alternate = picture.is_alternate();
        Next::Bytes(bytes)
    }

    /// Notified when there may be something to get.
    pub fn wake(&self, id: u64) -> Option<Arc<Notify>> {
        self.all.get(&id).map(|client| Arc::clone(&client.wake))
    }

    /// There is something to get for each of them, or nothing any more.
    pub fn wake_all(&self) {
        self.all.values().for_each(|client| client.wake.notify_one());
    }

    /// Whether input of this client is the program's; what a terminal answers by itself comes from one only.
    pub fn hear(&mut self, id: u64, is_report: bool) -> bool {
        if !is_report {
            self.active = Some(id);
        }
        self.active == Some(id)
    }
}

impl Client {
    fn push(&mut self, bytes: Vec<u8>, alternate: bool) {
        self.queued += bytes.len();
        match self.queue.back_mut() {
            Some((last, shows)) if *shows == alternate && last.len() + bytes.len() <= PIECE => {
                last.extend(bytes);
            }
            _ => self.queue.push_back((bytes, alternate)),
        }
        self.wake.notify_one();
    }

    fn lose(&mut self) {
        self.queue.clear();
        self.queued = 0;
        self.lost = true;
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: TermSize = TermSize { cols: 40, rows: 5 };
    const LARGE: TermSize = TermSize { cols: 90, rows: 30 };

    struct Session {
        clients: Clients,
        picture: Picture,
    }

    impl Session {
        fn new() -> (Self, u64) {
            let mut session = Self { clients: Clients::default(), picture: Picture::new(LARGE) };
            let first = session.clients.join(LARGE);
            session.fit();
            (session, first)
        }

        fn fit(&mut self) {
            if let Some(size) = self.clients.smallest() {
                self.picture.resize(size);
                self.clients.fit(size);
            }
        }

        fn write(&mut self, output: &str) {
            let was_alternate = self.picture.is_alternate();
            self.picture.feed(output.as_bytes());
            self.clients.feed(output.as_bytes(), was_alternate, &self.picture);
        }

        /// Everything for a client until there is nothing more.
        fn taken(&mut self, id: u64) -> String {
            let mut taken = Vec::new();
            while let Next::Bytes(bytes) = self.clients.next(id, &mut self.picture, true) {
                taken.extend(bytes);
            }
            String::from_utf8(taken).unwrap()
        }
    }

    #[test]
    fn the_smallest_terminal_decides_and_larger_ones_are_drawn() {
        let (mut session, first) = Session::new();
        session.write("raw \x1b[5mbytes");
        assert_eq!(session.taken(first), "raw \x1b[5mbytes");
        let second = session.clients.join(SMALL);
        session.fit();
        session.clients.introduce(second, &mut session.picture);
        assert_eq!(session.clients.smallest(), Some(SMALL));
        session.taken(first);
        session.taken(second);
        session.write("more");
        assert_eq!(session.taken(second), "more");
        let drawn = session.taken(first);
        assert!(drawn.contains("raw ") && drawn.contains("\x1b[H"), "a whole picture: {drawn:?}");
        session.clients.leave(second);
        session.fit();
        assert!(session.taken(first).contains("raw "), "drawn once more, then it follows");
        session.write("!");
        assert_eq!(session.taken(first), "!");
    }

    #[test]
    fn one_client_that_resizes_goes_on_following() {
        let (mut session, first) = Session::new();
        session.clients.resize(first, SMALL);
        session.fit();
        session.write("x");
        assert_eq!(session.taken(first), "x");
    }

    #[test]
    fn a_slow_client_is_left_behind_alone() {
        let (mut session, slow) = Session::new();
        let quick = session.clients.join(LARGE);
        let line = "y".repeat(1000);
        let mut written = 0;
        while !session.clients.are_crowded() {
            session.write(&line);
            assert_eq!(session.taken(quick).len(), 1000);
            written += 1;
            assert!(written <= 1 + QUEUE / 1000);
        }
        session.clients.leave_slow_behind();
        assert!(!session.clients.are_crowded());
        session.write("\r\nthe last line");
        let drawn = session.taken(slow);
        assert!(drawn.contains("the last line"));
        assert!(drawn.len() < 20_000, "what it missed is not sent: {}", drawn.len());
    }

    #[test]
    fn who_joined_above_a_full_screen_program_sees_what_was_below_it() {
        let (mut session, first) = Session::new();
        session.write("$ vim\r\n\x1b[?1049hfull screen");
        let second = session.clients.join(LARGE);
        session.fit();
        session.clients.introduce(second, &mut session.picture);
        assert!(session.taken(second).contains("full screen"));
        session.write("\x1b[?1049l$ ");
        let drawn = session.taken(second);
        assert!(drawn.contains("$ vim") && drawn.contains("\x1b[?1049l"), "{drawn:?}");
        assert!(session.taken(first).ends_with("\x1b[?1049l$ "));
    }

    #[test]
    fn only_the_active_terminal_answers_questions() {
        let (mut session, first) = Session::new();
        let second = session.clients.join(LARGE);
        assert!(session.clients.hear(second, true), "who came last is active");
        assert!(!session.clients.hear(first, true));
        assert!(session.clients.hear(first, false), "everybody may type");
        assert!(session.clients.hear(first, true) && !session.clients.hear(second, true));
        session.clients.leave(first);
        assert!(session.clients.hear(second, true));
    }
}
