//! One file per command: its arguments, the call into the library, and what it prints.

pub(crate) mod conform;
pub(crate) mod emulate;
pub(crate) mod list;

use iosched::failure::Failure;

use crate::args::{Cli, Command};
use crate::output::Output;

/// What a command ends with: an exit code, or an error that knows its hint and its code.
pub(crate) type Outcome = Result<u8, Box<dyn Failure>>;

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli, output: &Output) -> Outcome {
    match cli.command {
        Command::List(args) => list::run(&args, output),
        Command::Emulate(args) => emulate::run(&args, output),
        Command::Conform(args) => conform::run(&args, output),
    }
}
