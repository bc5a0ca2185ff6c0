use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many in a minute are more than a person reads; a guest can bring about any number.
const MOST: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);

/// How often a person is told.
#[derive(Debug, Default)]
pub struct Pace(VecDeque<Instant>);

impl Pace {
    /// Whether there is one more to be told.
    pub fn has_room(&mut self, now: Instant) -> bool {
        self.0.retain(|told| now.duration_since(*told) < WINDOW);
        self.0.len() < MOST
    }

    pub fn count(&mut self, now: Instant) {
        self.0.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_off_and_the_next_minute_is_another() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let tell = |pace: &mut Pace, now| {
            let room = pace.has_room(now);
            if room {
                pace.count(now);
            }
            room
        };
        assert_eq!((0..100).filter(|_| tell(&mut pace, begin)).count(), MOST);
        assert!(!tell(&mut pace, begin + WINDOW / 2));
        assert!(tell(&mut pace, begin + WINDOW));
    }
}
