//! `iosched completions`: a script that completes commands and options in a shell.

use clap::{Args, Command};
use clap_complete::Shell;
use iosched_machine::failure::exit;

use super::Outcome;
use crate::output::Output;

/// Arguments of `iosched completions`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched completions bash > /etc/bash_completion.d/iosched
  iosched completions zsh  > /usr/share/zsh/vendor-completions/_iosched
  iosched completions fish > ~/.config/fish/completions/iosched.fish")]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    shell: Shell,
}

/// Runs `iosched completions` for this command line.
pub(crate) fn run(args: &CompletionsArgs, mut command: Command, output: &Output) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "iosched", &mut script);
    output.text(&String::from_utf8_lossy(&script));
    Ok(exit::OK)
}
