//! The command line as a whole: the program without a command is `run`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use super::{Cli, Command, slip};

pub const EXAMPLES: &str = "\
Examples:
  agents-sandbox                             run the agent on the project in this folder
  agents-sandbox -- run \"fix the test\"      give the agent its words, here for one task
  agents-sandbox --agent pi --memory 8G      another agent, a larger machine
  agents-sandbox shell                       look around in the sandbox
  agents-sandbox exec -- git status          run one command in it
  agents-sandbox list                        see all sandboxes
  agents-sandbox doctor                      find out what is missing on this computer";

/// What was typed, with the command always there.
#[derive(Debug)]
pub struct Typed {
    pub global: super::GlobalArgs,
    pub command: Command,
}

/// Reads the command line. The error is clap's own: help, version, or a usage error.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Typed, clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut definition = Cli::command();
    let matches = definition.try_get_matches_from_mut(&words);
    // Before what follows from it: a flag that only the meant command has, or help for another one.
    let hides_a_slip =
        |error: &clap::Error| matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::DisplayHelp);
    if matches.as_ref().err().is_none_or(hides_a_slip) {
        slip::refuse_an_almost_command(&mut definition, &words)?;
    }
    let matches = matches.map_err(|error| slip::name_the_command_of_a_flag(&definition, error))?;
    refuse_flags_before_a_command(&mut definition, &matches)?;
    let cli = Cli::from_arg_matches(&matches)?;
    Ok(Typed { global: cli.global, command: cli.command.unwrap_or(Command::Run(cli.run)) })
}

/// `agents-sandbox --cpus 2 stop` would silently drop the flag: it belongs to the `run` that is not meant.
fn refuse_flags_before_a_command(
    definition: &mut clap::Command,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    let Some(command) = matches.subcommand_name() else { return Ok(()) };
    let typed = definition.get_arguments().find(|argument| {
        !argument.is_global_set()
            && matches.try_contains_id(argument.get_id().as_str()).unwrap_or(false)
            && matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
    });
    let Some(argument) = typed else { return Ok(()) };
    let what = match argument.get_long() {
        Some(long) => format!("--{long} stands before `{command}` and would have no effect there"),
        None => format!("words for the agent stand before `{command}`; put all of them after `--`"),
    };
    Err(definition.error(ErrorKind::ArgumentConflict, what))
}

#[cfg(test)]
mod tests {
    use super::super::PROGRAM;
    use super::*;

    fn typed(words: &[&str]) -> Typed {
        parse(std::iter::once(PROGRAM).chain(words.iter().copied()).map(OsString::from)).unwrap()
    }

    fn agent_words(words: &[&str]) -> Vec<OsString> {
        match typed(words).command {
            Command::Run(args) => args.agent_args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn words_for_the_agent_arrive_as_they_are() {
        let after = ["--", "run", "a\nb", "", "--", "it's \"so\"", "-y", "--version"];
        for head in [&[][..], &["run"], &["--agent", "pi"], &["sandbox", "run"]] {
            let words: Vec<&str> = head.iter().copied().chain(after).collect();
            if head == ["sandbox", "run"] {
                assert!(matches!(typed(&words).command, Command::Sandbox(_)));
            } else {
                assert_eq!(agent_words(&words), after[1..], "{head:?}");
            }
        }
        assert_eq!(agent_words(&["fix", "it", "--cpus", "2"]), ["fix", "it"]);
    }

    #[test]
    fn a_flag_of_run_before_another_command_is_refused() {
        for words in [["--cpus", "2", "stop"], ["fix", "--docker", "list"]] {
            let error = parse(std::iter::once(PROGRAM).chain(words).map(OsString::from)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "{words:?}: {error}");
        }
        assert!(matches!(typed(&["-y", "stop"]).command, Command::Stop(_)));
    }
}
