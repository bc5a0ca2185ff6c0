use std::io;

use dialoguer::Input;

use super::confirm::asked;

/// Asks for one of several words, where the first is what Enter alone means. The beginning of a word that no
/// other has is enough. `None` is Ctrl-C or the end of the input.
pub fn choose(question: &str, words: &[&str]) -> io::Result<Option<usize>> {
    let validate = |typed: &String| match chosen(typed, words) {
        Some(_) => Ok(()),
        None => Err(format!("write one of {}", words.join(", "))),
    };
    let answer = asked(|| {
        Input::<String>::new()
            .with_prompt(question)
            .default(words.first().copied().unwrap_or_default().to_owned())
            .validate_with(validate)
            .interact()
    })?;
    Ok(answer.and_then(|typed| chosen(&typed, words)))
}

fn chosen(typed: &str, words: &[&str]) -> Option<usize> {
    let typed = typed.trim().to_ascii_lowercase();
    let mut fitting = words.iter().enumerate().filter(|(_, word)| word.starts_with(&typed));
    let (index, _) = fitting.next().filter(|_| !typed.is_empty())?;
    fitting.next().is_none().then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_one_word_alone_is_enough() {
        let words = ["keep", "reset", "restart", "quit"];
        for (typed, index) in [
            ("keep", Some(0)),
            ("K", Some(0)),
            (" res ", None),
            ("rese", Some(1)),
            ("restart", Some(2)),
            ("q", Some(3)),
            ("", None),
            ("yes", None),
            ("quitt", None),
        ] {
            assert_eq!(chosen(typed, &words), index, "{typed:?}");
        }
    }
}
