use std::collections::{HashMap, VecDeque};

/// Sessions of one checkout that are told apart: far more than anyone has at once.
const MOST: usize = 1000;

/// What is known of the sessions that were heard of last. A guest can name any number of them.
#[derive(Debug)]
pub(super) struct Recent<V> {
    known: HashMap<String, V>,
    /// The oldest first.
    order: VecDeque<String>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { known: HashMap::new(), order: VecDeque::new() }
    }
}

impl<V> Recent<V> {
    pub fn get(&self, session: &str) -> Option<&V> {
        self.known.get(session)
    }

    pub fn insert(&mut self, session: &str, value: V) {
        if let Some(known) = self.known.get_mut(session) {
            *known = value;
            return;
        }
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(session.into());
        self.known.insert(session.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_for_the_newest() {
        let mut recent = Recent::default();
        for number in 0..=MOST {
            recent.insert(&number.to_string(), number);
            recent.insert("1", 7);
        }
        assert_eq!((recent.known.len(), recent.order.len()), (MOST, MOST));
        assert_eq!(recent.get("0"), None);
        assert_eq!(recent.get("1"), Some(&7));
        assert_eq!(recent.get(&MOST.to_string()), Some(&MOST));
    }
}
