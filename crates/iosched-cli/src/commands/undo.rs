//! `iosched undo`: take the last change back.

use std::path::PathBuf;

use clap::Args;
use iosched_machine::failure::{Failure, Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::process::Stop;
use iosched_policy::history::{NextUndo, TakenBack, is_undo_cut_short, next_undo};
use iosched_switch::journal::Undone;

use super::{Outcome, stop_on_signals, take_turn};
use crate::output::Output;
use crate::undone::{describe, foretell};

/// Arguments of `iosched undo`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched log                           what there is to take back
  iosched undo                          the last change
  iosched undo                          and once more: the one before
  iosched undo --dry-run                which one that would be, and what of it

Takes back the last change that `set`, `persist`, `apply` or `tune --apply`
made: its files are what they were, and so are the disks, if the machine was
not booted since. A file or disk that somebody else changed meanwhile is left
alone; if a disk is, the exit code is 1. After an undo that was cut short (a
SIGKILL, a power failure) the next one finishes it, and does no more.")]
pub(crate) struct UndoArgs {
    /// Say what would be taken back, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Work on a copied tree instead of this machine
    #[arg(long, value_name = "DIR", hide = true, value_parser = crate::values::tree())]
    root: Option<PathBuf>,
}

/// Runs `iosched undo`.
pub(crate) fn run(args: &UndoArgs, output: &Output) -> Outcome {
    let host = args.root.as_ref().map_or_else(Host::live, Host::at);
    if args.dry_run {
        let next = next_undo(&host)?;
        if output.is_json() {
            output.json(&next);
        } else {
            print_next(&next, output);
        }
        return Ok(exit::OK);
    }
    let stop = Stop::new();
    let turn = take_turn(&host, &stop, output)?;
    stop_on_signals(&stop);
    let taken = turn.undo()?;
    if output.is_json() {
        output.json(&taken);
    } else {
        print(&taken, output);
    }
    let left: Vec<String> = taken
        .disks
        .iter()
        .filter(|disk| !disk.is_settled())
        .map(describe)
        .collect();
    let id = taken.entry.id;
    let theirs = left_alone(&taken);
    if left.is_empty() && theirs.is_empty() {
        return Ok(exit::OK);
    }
    if left.is_empty() {
        let message = format!(
            "change {id} is taken back, but not on {}: somebody has set that otherwise since",
            theirs.join(", ")
        );
        return Err(Problem::new(exit::FAILURE, message)
            .hint(format!("`iosched log --id {id}` shows what it was before"))
            .into());
    }
    let left = left.join("; ");
    let message = format!("change {id} is not yet taken back: {left}");
    Err(Problem::new(exit::FAILURE, message)
        .hint("`iosched undo` tries again")
        .into())
}

/// Finishes an undo that was cut short, for commands that change what it is about; none if there is none.
pub(crate) fn finish(
    host: &Host,
    stop: &Stop,
    output: &Output,
) -> Result<Option<TakenBack>, Box<dyn Failure>> {
    if !is_undo_cut_short(host) {
        return Ok(None);
    }
    Ok(take_turn(host, stop, output)?.finish_undo()?)
}

/// The same for commands that can do without: what cannot be finished is worth a note.
pub(crate) fn finish_or_note(host: &Host, stop: &Stop, output: &Output) {
    match finish(host, stop, output) {
        Ok(None) => {}
        Ok(Some(taken)) => output.warn(&format!("note: {}", in_a_line(&taken))),
        Err(error) => {
            let what = match next_undo(host) {
                Ok(_) => "an undo was cut short and cannot be finished",
                Err(_) => "whether an undo was cut short cannot be told",
            };
            output.warn(&format!(
                "note: {what}: {error}; `iosched undo` tries again"
            ));
        }
    }
}

/// The disks of a change that somebody has set since, which are left as they are.
fn left_alone(taken: &TakenBack) -> Vec<&str> {
    taken.disks.iter().filter_map(Undone::set_since).collect()
}

/// That a change is taken back.
pub(crate) fn in_a_line(taken: &TakenBack) -> String {
    let TakenBack {
        entry,
        was_cut_short,
        ..
    } = taken;
    let finished = if *was_cut_short {
        "an undo that was cut short is finished: "
    } else {
        ""
    };
    let theirs = left_alone(taken);
    let but = match theirs.as_slice() {
        [] => String::new(),
        theirs => format!(", but not on {}", theirs.join(", ")),
    };
    format!(
        "{finished}change {} is taken back{but}: {}",
        entry.id, entry.command
    )
}

/// That a change is taken back, and what became of each file and disk.
pub(crate) fn print(taken: &TakenBack, output: &Output) {
    output.line(&in_a_line(taken));
    for path in &taken.files {
        output.line(&format!("  {}: as before", path.display()));
    }
    tell_left_alone(&taken.left_alone, output);
    for undone in &taken.disks {
        output.line(&format!("  {}", describe(undone)));
    }
}

fn tell_left_alone(files: &[PathBuf], output: &Output) {
    for path in files {
        output.line(&format!(
            "  {}: changed or removed by somebody else meanwhile, left alone",
            path.display()
        ));
    }
}

/// Which change would be taken back, and what would become of each file and disk.
pub(crate) fn print_next(next: &NextUndo, output: &Output) {
    let NextUndo { entry, .. } = next;
    let what = if next.was_cut_short {
        "would finish the undo that was cut short of"
    } else {
        "would take back"
    };
    output.line(&format!("{what} change {}: {}", entry.id, entry.command));
    for path in &next.files {
        output.line(&format!("  {}: as before", path.display()));
    }
    tell_left_alone(&next.left_alone, output);
    for foreseen in &next.disks {
        output.line(&format!("  {}", foretell(foreseen)));
    }
}
