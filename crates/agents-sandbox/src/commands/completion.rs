//! `completion`: scripts that let a shell complete our command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, CommandResult, PROGRAM};
use crate::app::App;
use crate::exit::Exit;

/// Print a script that completes this command line in a shell
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  agents-sandbox completion bash > ~/.local/share/bash-completion/completions/agents-sandbox
  agents-sandbox completion zsh > ~/.zfunc/_agents-sandbox       (with fpath+=~/.zfunc)
  agents-sandbox completion fish > ~/.config/fish/completions/agents-sandbox.fish")]
pub struct CompletionArgs {
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

pub fn run(app: &App, args: &CompletionArgs) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), PROGRAM, &mut script);
    if args.shell == Shell::Bash {
        // The generator (4.6.12) takes the dash in our name for the step to a subcommand in one of two
        // places; the test that completes with a real bash shows it.
        let text = String::from_utf8_lossy(&script).replace("agents__subcmd__sandbox", "agents__sandbox");
        script = text.into_bytes();
    }
    app.out.bytes(&script)?;
    Ok(Exit::SUCCESS)
}
