//! `iosched log`: what was changed when, by which command, why.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_policy::history::{self, Entry, Status};

use super::Outcome;
use crate::output::Output;

/// Arguments of `iosched log`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched log            every change that was meant to stay, the last one first
  iosched log --id 3     one of them with its files and disks
  iosched log --json     all of it")]
pub(crate) struct LogArgs {
    /// Show this change in full
    #[arg(long, value_name = "NUMBER")]
    id: Option<u64>,

    /// Work on a copied tree instead of this machine
    #[arg(long, value_name = "DIR", hide = true, value_parser = crate::values::tree())]
    root: Option<PathBuf>,
}

/// Runs `iosched log`.
pub(crate) fn run(args: &LogArgs, output: &Output) -> Outcome {
    let host = args.root.as_ref().map_or_else(Host::live, Host::at);
    let mut entries = history::entries(&host)?;
    let not_understood = history::not_understood(&host)?;
    for path in &not_understood {
        output.warn(&format!(
            "warning: {} is damaged or of a newer version: left out",
            path.display()
        ));
    }
    let last = entries.iter().map(|entry| entry.id).max();
    if let (Some(id), Some(last)) = (args.id, last)
        && !entries.iter().any(|entry| entry.id == id)
    {
        let message = format!("there is no change {id}: the last one is {last}");
        return Err(Problem::usage(message)
            .hint("`iosched log` shows all")
            .into());
    }
    entries.reverse();
    entries.retain(|entry| args.id.is_none_or(|id| entry.id == id));
    if output.is_json() {
        output.json(&entries);
    } else if entries.is_empty() && not_understood.is_empty() {
        output.line("nothing was changed");
    }
    if !output.is_json() {
        for entry in &entries {
            show(entry, args.id.is_some(), output);
        }
    }
    Ok(exit::OK)
}

fn show(entry: &Entry, in_full: bool, output: &Output) {
    let status = match entry.status {
        Status::Begun => " [cut short]",
        Status::Done => "",
        Status::TakenBack => " [taken back]",
        Status::Undoing => " [undo, cut short]",
        Status::Undo => " [undo]",
    };
    output.line(&format!(
        "{} {}{status}  {}",
        entry.id,
        date(entry.at_unix_s),
        entry.command
    ));
    if let Some(why) = &entry.why {
        output.line(&format!("  why: {why}"));
    }
    for disk in &entry.disks {
        let before = &disk.before;
        let (device, scheduler) = (&before.device, &before.state.scheduler);
        let is_undo = matches!(entry.status, Status::Undoing | Status::Undo);
        let line = match disk.after.as_ref().filter(|_| !is_undo) {
            Some(after) if after.scheduler == *scheduler => {
                let mut line = format!("  {device}: {scheduler} stays");
                for change in before.state.differences(after) {
                    let name = change.file.rsplit('/').next().unwrap_or(&change.file);
                    let _ = write!(line, ", {name} {} -> {}", change.expected, change.found);
                }
                line
            }
            Some(after) => format!("  {device}: {scheduler} -> {}", after.scheduler),
            None if is_undo => format!("  {device}: back to {scheduler}"),
            None => format!("  {device}: {scheduler} -> ?"),
        };
        output.line(&line);
        if let Some(after) = disk.after.as_ref().filter(|_| in_full)
            && after.scheduler != *scheduler
        {
            let mut switched = before.state.clone();
            switched.scheduler.clone_from(&after.scheduler);
            for change in switched.differences(after) {
                let name = change.file.rsplit('/').next().unwrap_or(&change.file);
                output.line(&format!(
                    "    {name} {} -> {}",
                    change.expected, change.found
                ));
            }
        }
    }
    for file in &entry.files {
        if in_full {
            output.text(&file.diff());
        } else {
            output.line(&format!("  {}", file.path.display()));
        }
    }
}

/// A time in UTC, to the second.
pub(crate) fn date(unix_s: f64) -> String {
    let since = std::time::Duration::try_from_secs_f64(unix_s.max(0.0).floor());
    let time = since
        .ok()
        .and_then(|since| std::time::UNIX_EPOCH.checked_add(since));
    let shown = time.and_then(|time| jiff::Timestamp::try_from(time).ok());
    shown.map_or_else(|| "?".into(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn a_time_that_no_calendar_has_is_shown_as_unknown() {
        for unix_s in [1e12, 9.2e18, f64::MAX, f64::INFINITY] {
            assert_eq!(date(unix_s), "?", "{unix_s}");
        }
        assert_eq!(date(-1.0), "1970-01-01T00:00:00Z");
        assert_eq!(date(f64::NAN), "1970-01-01T00:00:00Z");
    }
}
