//! Words that become other words while bytes pass.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, Input, MatchKind};

/// What is looked for, each with what takes its place. Of several that begin at one place the longest counts.
#[derive(Debug, Clone)]
pub(super) struct Words(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    search: AhoCorasick,
    words: Vec<(Vec<u8>, Vec<u8>)>,
    longest: usize,
    /// Each has as many bytes as what takes its place.
    keeps_length: bool,
}

impl Words {
    /// `None` where nothing is looked for. An empty word is nothing.
    pub fn new(words: Vec<(Vec<u8>, Vec<u8>)>) -> Option<Self> {
        let words: Vec<_> = words.into_iter().filter(|(word, _)| !word.is_empty()).collect();
        let longest = words.iter().map(|(word, _)| word.len()).max()?;
        let keeps_length = words.iter().all(|(word, other)| word.len() == other.len());
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(words.iter().map(|(word, _)| word));
        // It fails for more than millions of bytes of words alone.
        Some(Self(Arc::new(Inner { search: search.ok()?, words, longest, keeps_length })))
    }

    pub fn keeps_length(&self) -> bool {
        self.0.keeps_length
    }

    /// `text` with all words replaced; `None` where it has none.
    pub fn replaced(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.0.search.find(text)?;
        let mut passing = Rewriter::new(self.clone());
        let mut out = passing.push(text);
        out.extend(passing.finish());
        Some(out)
    }

    /// From where on what follows may complete a word that has begun in `bytes[at..]`.
    fn begun(&self, bytes: &[u8], at: usize) -> usize {
        let first = at.max((bytes.len() + 1).saturating_sub(self.0.longest));
        let begins = |from: &usize| {
            let rest = &bytes[*from..];
            self.0.words.iter().any(|(word, _)| word.len() > rest.len() && word.starts_with(rest))
        };
        (first..bytes.len()).find(begins).unwrap_or(bytes.len())
    }
}

/// One stream of bytes. It keeps back no more than the beginning of a word.
#[derive(Debug)]
pub(super) struct Rewriter {
    words: Words,
    kept: Vec<u8>,
}

impl Rewriter {
    pub fn new(words: Words) -> Self {
        Self { words, kept: Vec::new() }
    }

    /// What can be passed on once `bytes` have come.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.kept);
        all.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(all.len());
        let mut at = 0;
        loop {
            let begun = self.words.begun(&all, at);
            // One that begins before could not become a longer one.
            match self.words.0.search.find(Input::new(&all).range(at..)) {
                Some(found) if found.start() < begun => {
                    out.extend_from_slice(&all[at..found.start()]);
                    out.extend_from_slice(&self.words.0.words[found.pattern().as_usize()].1);
                    at = found.end();
                }
                _ => {
                    out.extend_from_slice(&all[at..begun]);
                    self.kept = all.split_off(begun);
                    return out;
                }
            }
        }
    }

    /// How many bytes wait for the rest of a word.
    pub fn kept_bytes(&self) -> u64 {
        self.kept.len() as u64
    }

    /// What is left when nothing more comes: the beginning of a word, which may have a shorter one in it.
    pub fn finish(&mut self) -> Vec<u8> {
        let all = std::mem::take(&mut self.kept);
        let (mut out, mut at) = (Vec::with_capacity(all.len()), 0);
        for found in self.words.0.search.find_iter(&all) {
            out.extend_from_slice(&all[at..found.start()]);
            out.extend_from_slice(&self.words.0.words[found.pattern().as_usize()].1);
            at = found.end();
        }
        out.extend_from_slice(&all[at..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(words: &[(&str, &str)]) -> Words {
        Words::new(words.iter().map(|(a, b)| (a.as_bytes().to_vec(), b.as_bytes().to_vec())).collect())
            .unwrap()
    }

    #[test]
    fn the_longest_counts_and_only_the_beginning_of_a_word_is_kept_back() {
        let words = words(&[("$MSB_KEY", "one"), ("$MSB_KEY_2", "two")]);
        let mut passing = Rewriter::new(words.clone());
        assert_eq!(passing.push(b"a $MSB_KE"), b"a ");
        assert_eq!(passing.push(b"Y"), b"", "it may become the longer one");
        assert_eq!(passing.push(b"_2, $MSB_KEY_3"), b"two, one_3");
        assert_eq!(passing.push(b"data: x\n\n"), b"data: x\n\n", "nothing is kept that begins no word");
        assert_eq!(passing.push(b"$MSB_KEY_"), b"");
        assert_eq!(passing.finish(), b"one_");
        assert_eq!(words.replaced(b"nothing"), None);
        assert_eq!(words.replaced(b"$MSB_KEY").unwrap(), b"one");
        assert!(Words::new(vec![(Vec::new(), b"x".to_vec())]).is_none());
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_bytes_come(text in "[abc]{0,60}", cuts in prop::collection::vec(0..8usize, 0..40)) {
            let words = words(&[("ab", "X"), ("abca", "Y"), ("bb", ""), ("cac", "ZZZ")]);
            let whole = words.replaced(text.as_bytes()).unwrap_or_else(|| text.clone().into_bytes());
            let mut expected = Vec::new();
            let mut at = 0;
            while at < text.len() {
                let here = words.0.words.iter().filter(|(word, _)| text.as_bytes()[at..].starts_with(word));
                if let Some((word, other)) = here.max_by_key(|(word, _)| word.len()) {
                    expected.extend(other);
                    at += word.len();
                } else {
                    expected.push(text.as_bytes()[at]);
                    at += 1;
                }
            }
            prop_assert_eq!(&whole, &expected);
            let (mut passing, mut out, mut rest) = (Rewriter::new(words), Vec::new(), text.as_bytes());
            for cut in cuts {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                out.extend(passing.push(now));
                rest = later;
            }
            out.extend(passing.push(rest));
            out.extend(passing.finish());
            prop_assert_eq!(out, expected);
        }
    }
}
