//! `iosched undo`: take the last change back.

use std::path::PathBuf;

use clap::Args;
use iosched::failure::exit;
use iosched::host::Host;
use iosched::journal::Undone;
use iosched::process::Stop;

use super::restore::describe;
use super::{Outcome, boxed, take_turn};
use crate::output::Output;

/// Arguments of `iosched undo`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched log                           what there is to take back
  iosched undo                          the last change
  iosched undo                          and once more: the one before

Takes back the last change that `set`, `persist`, `apply` or `tune --apply`
made: its files are what they were, and so are the disks, if the machine was
not booted since. A file that somebody else changed meanwhile is not
overwritten.")]
pub(crate) struct UndoArgs {
    /// Work on a copied tree instead of this machine
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

/// Runs `iosched undo`.
pub(crate) fn run(args: &UndoArgs, output: &Output) -> Outcome {
    let host = args.root.as_ref().map_or_else(Host::live, Host::at);
    let turn = take_turn(&host, &Stop::new(), output)?;
    let taken = turn.undo().map_err(boxed)?;
    let is_settled = taken.disks.iter().all(Undone::is_settled);
    if output.is_json() {
        output.json(&taken);
    } else {
        output.text(&format!(
            "change {} is taken back: {}",
            taken.entry.id, taken.entry.command
        ));
        for path in &taken.files {
            output.text(&format!("  {}: as before", path.display()));
        }
        for undone in &taken.disks {
            output.text(&format!("  {}", describe(undone)));
        }
    }
    Ok(if is_settled { exit::OK } else { exit::FAILURE })
}
