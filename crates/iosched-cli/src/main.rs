//! The command `iosched`: arguments in, library called, text or JSON out, an exit code.
//!
//! [`args`] says what can be asked, `commands/` has one file per command, [`output`] is the one
//! place that knows about terminals, and [`iosched::failure::exit`] has the exit codes.

mod args;
mod commands;
mod files;
mod meter;
mod output;
mod progress;
mod values;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let output = output::Output::new(cli.json, cli.quiet);
    match commands::run(cli, &output) {
        Ok(_) if output.lost().is_some() => {
            let cause = output.lost().unwrap_or_default();
            output.warn(&format!("error: the result could not be written: {cause}"));
            ExitCode::from(iosched::failure::exit::FAILURE)
        }
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output.failure(failure.as_ref());
            ExitCode::from(failure.exit_code())
        }
    }
}
