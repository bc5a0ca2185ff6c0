//! What was typed and cannot be meant: a command's name with a slip in it, and a flag of another command.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use sandbox_config::KEYS;

use super::PROGRAM;

/// What other tools call it, and the command that does it here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("attach", "session attach"),
    ("delete", "sandbox remove"),
    ("destroy", "sandbox remove"),
    ("down", "stop"),
    ("images", "image list"),
    ("inspect", "sandbox inspect"),
    ("ps", "list"),
    ("remove", "sandbox remove"),
    ("rm", "sandbox remove"),
    ("rmi", "image remove"),
    ("ssh", "shell"),
    ("start", "run"),
    ("status", "list"),
    ("top", "list"),
    ("up", "run"),
    ("volumes", "volume list"),
];

/// Refuses a first word that almost is a command, or is one of another tool's: it would become a word for the agent,
/// and start a sandbox.
///
/// The words after it do not matter: `exex true` is no more meant for an agent than `exex` is, and a text for one that
/// begins like a command costs its author two dashes. What stands after `--` is the agent's, and so is a path, or a text
/// of several words.
pub fn refuse_an_almost_command(
    definition: &mut clap::Command,
    words: &[OsString],
) -> Result<(), clap::Error> {
    let Some(word) = first_word(definition, words).and_then(|word| word.to_str()) else { return Ok(()) };
    if definition.find_subcommand(word).is_some() || Path::new(word).exists() {
        return Ok(());
    }
    let elsewhere = ELSEWHERE.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
    let meant = elsewhere.map(|(_, command)| (*command).to_string()).or_else(|| almost(definition, word));
    let Some(command) = meant else { return Ok(()) };
    let text = format!(
        "`{word}` is no command; did you mean `{PROGRAM} {command}`?\n\n  tip: words for the agent stand after \
         `--`: `{PROGRAM} -- {word}`"
    );
    Err(definition.error(ErrorKind::InvalidSubcommand, text))
}

/// The first word before `--` that is no flag and no flag's value. Read without the parser, which gives none of them
/// where it does not know a flag further on.
fn first_word<'a>(definition: &clap::Command, words: &'a [OsString]) -> Option<&'a OsString> {
    let mut words = words.iter().skip(1);
    loop {
        let word = words.next()?;
        let Some(flag) = word.to_str().and_then(|text| text.strip_prefix('-')) else { return Some(word) };
        match flag.strip_prefix('-') {
            Some("") => return None,
            Some(long) => {
                let is_it = |argument: &clap::Arg| argument.get_long() == Some(long) && takes_next(argument);
                if definition.get_arguments().any(is_it) {
                    words.next();
                }
            }
            None => {
                // Of several in one word, the first that takes a value has the rest of it, or the next word.
                let valued = |letter: char| {
                    let is_it =
                        |argument: &clap::Arg| argument.get_short() == Some(letter) && takes_next(argument);
                    definition.get_arguments().any(is_it)
                };
                if flag.find(valued).is_some_and(|at| flag[at..].chars().count() == 1) {
                    words.next();
                }
            }
        }
    }
}

fn takes_next(argument: &clap::Arg) -> bool {
    argument.get_action().takes_values() && !argument.is_require_equals_set()
}

/// The command that a word almost is.
fn almost(definition: &clap::Command, word: &str) -> Option<String> {
    // Whatever has another character is a path or a text.
    if word.len() < 3 || !word.chars().all(char::is_alphabetic) {
        return None;
    }
    let word = word.to_lowercase();
    let count = |command: &str| strsim::damerau_levenshtein(&word, command);
    let swapped = |command: &str| count(command) == 1 && strsim::levenshtein(&word, command) == 2;
    let slips = |command: &str| {
        // Of short words, too many are near each other; of long ones, those that begin alike are meant.
        let most = match (word.len(), command.len()) {
            (6.., 4..) if word.chars().next() == command.chars().next() => 2,
            (_, 4..) => 1,
            _ => 0,
        };
        // A plural is often typed without its last letter, which is no slip: `prot` is one from `port`.
        let singular = command.strip_suffix('s').unwrap_or(command);
        let slips = count(command);
        (slips <= most || swapped(command) || swapped(singular)).then_some(slips)
    };
    let commands = definition.get_subcommands().filter(|command| !command.is_hide_set());
    let names = commands.flat_map(|command| {
        let spelled = std::iter::once(command.get_name()).chain(command.get_visible_aliases());
        spelled.map(move |spelled| (spelled, command.get_name()))
    });
    let near = names.filter_map(|(spelled, command)| Some((slips(spelled)?, command)));
    near.min().map(|(_, command)| command.to_string())
}

/// So many commands that have a flag are named: a line can be read.
const NAMED: usize = 6;

/// Of a flag that only other commands have, the parser would say how to pass it as a value, which nobody wants.
pub fn name_the_command_of_a_flag(definition: &clap::Command, mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let name = flag.split(['=', ' ']).next().unwrap_or_default().to_string();
    let Some(long) = name.strip_prefix("--") else { return error };
    let commands = commands_with(definition, long);
    let Some(whose) = spoken(&commands) else { return error };
    // Of a sandbox, that is; when to prune is no business of the others.
    let is_a_setting = KEYS.iter().any(|key| key.flag == Some(name.as_str()));
    let is_a_setting = is_a_setting && commands.iter().any(|command| command == "run");
    let instead = if is_a_setting { "; other commands follow the settings" } else { "" };
    let tip = format!("'{name}' is a flag of {whose}{instead}");
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error.remove(ContextKind::SuggestedArg);
    error
}

/// The commands that have a flag, as they are typed: first those of one word. One that is there under a group as well
/// (`sandbox stop`), or for one kind alone (`image prune`), is not said twice.
fn commands_with(definition: &clap::Command, long: &str) -> Vec<String> {
    let has = |command: &clap::Command| {
        command.get_arguments().any(|it| it.get_long() == Some(long) && !it.is_hide_set())
    };
    let shown = || definition.get_subcommands().filter(|command| !command.is_hide_set());
    let mut found: Vec<String> =
        shown().filter(|command| has(command)).map(|command| command.get_name().to_string()).collect();
    for group in shown() {
        for command in group.get_subcommands().filter(|command| !command.is_hide_set() && has(command)) {
            if !found.iter().any(|one| one == command.get_name()) {
                found.push(format!("{} {}", group.get_name(), command.get_name()));
            }
        }
    }
    found
}

/// Them in a sentence, if there are any.
fn spoken(commands: &[String]) -> Option<String> {
    let quoted: Vec<String> = commands.iter().take(NAMED).map(|command| format!("`{command}`")).collect();
    let (last, before) = quoted.split_last()?;
    Some(if commands.len() > NAMED {
        format!("{} and others", quoted.join(", "))
    } else if before.is_empty() {
        last.clone()
    } else {
        format!("{} and {last}", before.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn refusal(words: &[&str]) -> Option<String> {
        let typed = parse(std::iter::once(PROGRAM).chain(words.iter().copied()).map(OsString::from));
        typed.err().map(|error| error.to_string())
    }

    #[track_caller]
    fn refused(words: &[&str], command: &str) {
        let said = refusal(words).unwrap_or_default();
        assert!(said.contains(&format!("did you mean `agents-sandbox {command}`?")), "{words:?}: {said}");
        assert!(said.contains("`agents-sandbox -- "), "{words:?}: {said}");
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
            (&["confg", "show"], "config"),
            (&["exex", "true"], "exec"),
            (&["exe", "true"], "exec"),
            (&["prot", "list"], "ports"),
            (&["prot", "-y", "list"], "ports"),
            (&["complation", "bash"], "completion"),
            (&["lint", "the", "code"], "list"),
            (&["-ym", "4G", "--cpus=2", "--disk-size", "4G", "stpo", "--all"], "stop"),
            (&["exce", "-it", "--", "bash"], "exec"),
            (&["confg", "--help"], "config"),
        ] {
            refused(words, command);
        }
        for words in [
            &["hello"][..],
            &["--", "stpo"],
            &["--", "exce", "true"],
            &["--", "lint", "the", "code"],
            &["--", "attach"],
            &["run", "stpo"],
            &["run", "start"],
            &["fix", "--", "exce"],
            &["stpo it"],
            &["./stpo"],
            &["test"],
            &["models"],
            &["ru"],
            &["set"],
            &["set", "up", "tests"],
            &["sort", "the", "imports"],
            &["rework", "the", "parser"],
            &["--agent", "pi", "hello"],
        ] {
            assert_eq!(refusal(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_command_of_another_tool_is_named_as_it_is_called_here() {
        let definition = <super::super::Cli as clap::CommandFactory>::command();
        for (word, command) in ELSEWHERE.iter().copied() {
            for words in [&[word][..], &[word, "it"], &[word, "-a"]] {
                refused(words, command);
            }
            assert!(definition.find_subcommand(word).is_none(), "{word} is a command");
            let mut place = &definition;
            for part in command.split(' ') {
                place = place.find_subcommand(part).unwrap_or_else(|| panic!("{command} is none"));
            }
        }
    }

    #[test]
    fn a_flag_of_another_command_is_not_taken_for_a_value() {
        let said = refusal(&["exec", "--network", "none", "--", "true"]).unwrap_or_default();
        assert!(said.contains("'--network' is a flag of `run` and `shell`; other commands follow"), "{said}");
        assert!(!said.contains("as a value"), "{said}");
        let said = refusal(&["stop", "--serve-only"]).unwrap_or_default();
        assert!(said.contains("'--serve-only' is a flag of `run`\n"), "no setting says it: {said}");
        let said = refusal(&["exec", "--cold", "true"]).unwrap_or_default();
        assert!(said.contains("'--cold' is a flag of `stop`\n"), "{said}");
        // One that nobody has is what it was.
        let said = refusal(&["exec", "--nonsense"]).unwrap_or_default();
        assert!(said.contains("unexpected argument '--nonsense'") && !said.contains("a flag of"), "{said}");
    }
}
