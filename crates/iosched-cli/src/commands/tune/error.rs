//! What `iosched tune` cannot do here, and the way out of it.

use std::path::Path;

use iosched_machine::command_line::{Remedy, quoted_path};
use iosched_machine::failure::{Problem, Remediable, exit};
use iosched_report as report;

/// Options that a run has from its beginning were given together with `--resume`. Each option comes with whether it has
/// a value; `goes_on_without` them the run would go on.
pub(super) fn fixed_by_record(
    options: Vec<(&'static str, bool)>,
    directory: &Path,
    goes_on_without: bool,
) -> Remediable {
    let names = report::words::enumerate(options.iter().map(|&(name, _)| name));
    let message = format!(
        "{names} cannot be changed: the run in {} has what it began with",
        directory.display()
    );
    Remediable {
        problem: Problem::usage(message).hint(
            "--resume takes the plan from the record; --rounds and --budget may be larger; for anything \
             else start a new run",
        ),
        remedy: goes_on_without.then_some(Remedy::Without(options)),
    }
}

/// A run that is over, and the command that goes on with it all the same, with a larger budget.
pub(super) fn complete(directory: &Path, why: &str, going_on: Option<String>) -> Problem {
    let message = format!("the run in {} is over: {why}", directory.display());
    let larger = going_on.map_or(String::new(), |command| {
        format!("; go on with a larger budget: {command}")
    });
    let directory = quoted_path(directory);
    Problem::new(exit::BAD_RECORD, message)
        .hint(format!("see it with: iosched report {directory}{larger}"))
}
