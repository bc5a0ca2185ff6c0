//! What was typed and cannot be meant: a command's name with a slip in it, and a flag of another command.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use sandbox_config::KEYS;

use super::PROGRAM;

/// Refuses a first word that almost is a command: it would become a word for the agent, and start a sandbox.
///
/// What stands after `--` is the agent's, and so is a path, or a text of several words.
pub fn refuse_an_almost_command(
    definition: &mut clap::Command,
    words: &[OsString],
    agent_words: &[OsString],
) -> Result<(), clap::Error> {
    let after = words.iter().position(|word| word == "--").map_or(0, |at| words.len() - at - 1);
    let before = agent_words.len().saturating_sub(after);
    let Some(word) = agent_words.first().and_then(|word| word.to_str()).filter(|_| before > 0) else {
        return Ok(());
    };
    let Some(command) = almost(definition, word, before == 1).filter(|_| !Path::new(word).exists()) else {
        return Ok(());
    };
    let text = format!(
        "`{word}` is no command; did you mean `{PROGRAM} {command}`?\n\n  tip: words for the agent stand after \
         `--`: `{PROGRAM} -- {word}`"
    );
    Err(definition.error(ErrorKind::InvalidSubcommand, text))
}

/// The command that a word almost is. `alone`: no other word is before `--`, so that it is hardly the first of a
/// sentence, in which `port` and `lint` mean themselves.
fn almost(definition: &clap::Command, word: &str, alone: bool) -> Option<String> {
    // Whatever has another character is a path or a text.
    if word.len() < 3 || !word.chars().all(char::is_alphabetic) {
        return None;
    }
    let word = word.to_lowercase();
    let slips = |command: &str| {
        let slips = strsim::damerau_levenshtein(&word, command);
        let swapped = slips == 1 && strsim::levenshtein(&word, command) == 2;
        // Of short words, too many are near each other.
        let most = match (word.len(), command.len(), alone) {
            (..6, 4.., true) | (6.., 4.., false) => 1,
            (6.., 4.., true) => 2,
            _ => 0,
        };
        (swapped || slips <= most).then_some(slips)
    };
    let commands = definition
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .flat_map(|command| std::iter::once(command.get_name()).chain(command.get_visible_aliases()));
    let near = commands.filter_map(|command| Some((slips(command)?, command)));
    near.min().map(|(_, command)| command.to_string())
}

/// Of a flag that only `run` and `shell` have, the parser would say how to pass it as a value, which nobody wants.
pub fn name_the_command_of_a_flag(definition: &clap::Command, mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let name = flag.split(['=', ' ']).next().unwrap_or_default().to_string();
    let has = |command: &str| {
        definition.find_subcommand(command).is_some_and(|command| {
            command
                .get_arguments()
                .any(|argument| argument.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long)))
        })
    };
    let whose = match (has("run"), has("shell")) {
        (true, true) => "`run` and `shell`",
        (true, false) => "`run`",
        (false, true) => "`shell`",
        (false, false) => return error,
    };
    let is_a_setting = KEYS.iter().any(|key| key.flag == Some(name.as_str()));
    let instead = if is_a_setting { "; other commands follow the settings" } else { "" };
    let tip = format!("'{name}' is a flag of {whose}{instead}");
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error.remove(ContextKind::SuggestedArg);
    error
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn refusal(words: &[&str]) -> Option<String> {
        let typed = parse(std::iter::once(PROGRAM).chain(words.iter().copied()).map(OsString::from));
        typed.err().map(|error| error.to_string())
    }

    #[test]
    fn an_almost_command_is_refused_and_words_for_the_agent_are_not() {
        for (words, command) in [
            (&["stpo"][..], "stop"),
            (&["exce", "--", "true"], "exec"),
            (&["--agent", "pi", "Exec", "x"], "exec"),
            (&["netwrok", "log"], "network"),
            (&["lst"], "list"),
            (&["rnu", "--", "x"], "run"),
            (&["complation"], "completion"),
            (&["worktre", "list"], "worktree"),
        ] {
            let said = refusal(words).unwrap_or_default();
            assert!(said.contains(&format!("did you mean `agents-sandbox {command}`?")), "{words:?}: {said}");
            assert!(said.contains("`agents-sandbox -- "), "{words:?}: {said}");
        }
        for words in [
            &["hello"][..],
            &["--", "stpo"],
            &["--", "exce", "true"],
            &["run", "stpo"],
            &["fix", "--", "exce"],
            &["stpo it"],
            &["./stpo"],
            &["test"],
            &["models"],
            &["ru"],
            &["set"],
            &["set", "up", "tests"],
            &["port", "this", "to", "rust"],
            &["lint", "the", "code"],
            &["confirm", "it"],
            &["will", "it", "run"],
        ] {
            assert_eq!(refusal(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_flag_of_another_command_is_not_taken_for_a_value() {
        let said = refusal(&["exec", "--network", "none", "--", "true"]).unwrap_or_default();
        assert!(said.contains("'--network' is a flag of `run` and `shell`; other commands follow"), "{said}");
        assert!(!said.contains("as a value"), "{said}");
        let said = refusal(&["stop", "--serve-only"]).unwrap_or_default();
        assert!(said.contains("'--serve-only' is a flag of `run`\n"), "no setting says it: {said}");
        // One that nobody has is what it was.
        let said = refusal(&["exec", "--nonsense"]).unwrap_or_default();
        assert!(said.contains("unexpected argument '--nonsense'") && !said.contains("a flag of"), "{said}");
    }
}
