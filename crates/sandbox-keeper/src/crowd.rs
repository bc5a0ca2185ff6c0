use std::time::{Duration, Instant};

/// So many lines that a guest can have written as often as it likes, in so much time.
const MOST: u32 = 40;
const WINDOW: Duration = Duration::from_hours(1);

/// Keeps what a guest can have written without end from pushing other lines out of a log of bounded size.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    begun: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Crowd {
    /// Whether another such line may be written; it is counted if not.
    pub fn admits(&mut self, now: Instant) -> bool {
        if self.begun.is_none_or(|begun| now.duration_since(begun) >= WINDOW) {
            (self.begun, self.written) = (Some(now), 0);
        }
        if self.written < MOST {
            self.written += 1;
            return true;
        }
        self.left_out += 1;
        false
    }

    /// How many were left out since this was asked last.
    pub const fn take_left_out(&mut self) -> u64 {
        std::mem::replace(&mut self.left_out, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_an_hour_and_the_others_are_counted() {
        let (mut crowd, begin) = (Crowd::default(), Instant::now());
        let admitted = |crowd: &mut Crowd, now| (0..1000).filter(|_| crowd.admits(now)).count();
        assert_eq!(admitted(&mut crowd, begin), 40);
        assert_eq!((crowd.take_left_out(), crowd.take_left_out()), (960, 0));
        assert_eq!(admitted(&mut crowd, begin + WINDOW / 2), 0);
        assert_eq!(admitted(&mut crowd, begin + WINDOW), 40);
        assert_eq!(crowd.take_left_out(), 1960);
    }
}
