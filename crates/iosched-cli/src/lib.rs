//! The command `iosched`: arguments in, library called, text or JSON out, an exit code.
//!
//! `args` says what can be asked, `commands/` has one file per command, `output` is the one
//! place that knows about terminals, and [`iosched_machine::failure::exit`] has the exit codes.
//!
//! [`run_with`] is all that others can call: the command with schedulers of their own.

mod args;
mod commands;
mod files;
mod io_priority;
mod meter;
mod output;
#[cfg(test)]
mod printed_commands;
mod progress;
mod streams;
mod undone;
mod values;

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use args::{Cli, Command};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};
use commands::{
    advise, apply, calibrate, check, completions, conform, emulate, evidence, judge, list, loads,
    log, manual, persist, report, restore, set, simulate, tune, undo, watch,
};
use iosched_machine::command_line::quoted;
use iosched_machine::device::answers;
use iosched_machine::failure::Problem;
use iosched_machine::process;
use iosched_sim::scheduler::{self, SchedulerInfo};

/// Runs the command that the arguments of this process name, with these schedulers besides the kernel's.
///
/// They can be simulated, served (`emulate --scheduler`) and followed (`conform`), and have their place in lists and
/// help. `examples/your-own-scheduler` is a program of one file that calls it.
pub fn run_with(schedulers: &'static [SchedulerInfo]) -> ExitCode {
    scheduler::register(schedulers);
    commands::survive_limits();
    process::be_told_of_ended_children();
    set_safe_path();
    iosched_experiment::emulated::serve();
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(told) => return tell(&told),
    };
    if cli.in_container {
        iosched_switch::lock::allow_in_container();
    }
    let output = output::Output::new(cli.json, cli.quiet);
    match run(cli, &output) {
        Ok(_) if output.lost().is_some() => {
            let cause = output.lost().unwrap_or_default();
            output.warn(&format!("error: the result could not be written: {cause}"));
            ExitCode::from(iosched_machine::failure::exit::FAILURE)
        }
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output.failure(failure.as_ref());
            ExitCode::from(failure.exit_code())
        }
    }
}

/// What the command line says.
fn parsed() -> Result<Cli, clap::Error> {
    let mut command = args::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Prints help, the version, or what is wrong with the arguments.
fn tell(told: &clap::Error) -> ExitCode {
    let written = told.print().and_then(|()| std::io::stdout().flush());
    if let Some(ContextValue::String(given)) = told.get(ContextKind::InvalidArg)
        && told.kind() == clap::error::ErrorKind::UnknownArgument
        && Path::new(given)
            .extension()
            .is_some_and(|ending| ending == "fio")
    {
        let output = output::Output::new(false, false);
        let load = quoted(given);
        output.warn(&format!("hint: a job file is a load: --load {load}"));
    }
    match written {
        Err(cause) if !told.use_stderr() && cause.kind() != ErrorKind::BrokenPipe => {
            let output = output::Output::new(false, false);
            output.warn(&format!("error: the result could not be written: {cause}"));
            ExitCode::from(iosched_machine::failure::exit::FAILURE)
        }
        _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(u8::MAX)),
    }
}

/// As root, looks for programs in the system's directories only, where nobody else can put one. Before anything is
/// started: also threads.
fn set_safe_path() {
    if rustix::process::geteuid().is_root() {
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var("PATH", process::SAFE_PATH) };
    }
}

/// Refuses an argument with a path on a file system that does not answer, before anything is changed: wherever we looked
/// at it first, we would wait for its server for ever.
fn check_paths_answer() -> Result<(), Problem> {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let values = words.map(|word| match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value.to_owned(),
        _ => word,
    });
    let paths = values.filter(|value| value.contains('/'));
    paths.map(PathBuf::from).try_for_each(|path| answers(&path))
}

/// Runs the command that was asked for.
fn run(cli: Cli, output: &output::Output) -> commands::Outcome {
    // What puts a disk back asks nobody whether it may.
    if !matches!(cli.command, Command::RevertAfter(_)) {
        check_paths_answer()?;
    }
    match cli.command {
        Command::Calibrate(args) => Ok(calibrate::run(&args, output)),
        Command::List(args) => list::run(&args, output),
        Command::Loads(_) => loads::run(output),
        Command::Advise(args) => advise::run(&args, output),
        Command::Set(args) => set::run(&args, output),
        Command::Tune(args) => tune::run(&args, output),
        Command::Evidence(args) => evidence::run(&args, output),
        Command::Judge(args) => judge::run(&args, output),
        Command::Report(args) => report::run(&args, output),
        Command::Emulate(args) => emulate::run(&args, output),
        Command::Simulate(args) => simulate::run(&args, output),
        Command::Conform(args) => conform::run(&args, output),
        Command::Watch(args) => watch::run(&args, output),
        Command::Persist(args) => persist::run(&args, output),
        Command::Apply(args) => apply::run(&args, output),
        Command::Check(args) => check::run(&args, output),
        Command::Undo(args) => undo::run(&args, output),
        Command::Log(args) => log::run(&args, output),
        Command::Restore(args) => restore::run(&args, output),
        Command::Completions(args) => completions::run(&args, Cli::command(), output),
        Command::Manual(args) => manual::run(&args, Cli::command()),
        Command::RevertAfter(args) => set::revert_after(&args),
    }
}
