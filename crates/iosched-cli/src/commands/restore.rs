//! `iosched restore`: put back what an interrupted run left.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use iosched_emulate as emulate;
use iosched_emulate::Condition;
use iosched_machine::capture;
use iosched_machine::failure::{Failure, Problem, exit, in_a_sentence};
use iosched_machine::host::Host;
use iosched_machine::process::Stop;
use iosched_policy::history::{NextUndo, TakenBack, is_undo_cut_short, next_undo};
use iosched_switch::journal::{
    self, Foreseen, Leftover, NotUnderstood, Parts, Resolution, RunState, Undone,
};
use serde::Serialize;

use super::{Outcome, boxed, undo};
use crate::output::Output;
use crate::undone::{describe, foretell};

/// Arguments of `iosched restore`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched restore                       after a crash: put everything back
  iosched restore --dry-run             what there is to put back
  iosched restore --json                and tell a program what was done

Run it after a crash, a SIGKILL or a power failure. It puts back the scheduler
and every queue setting that an interrupted `tune` or `set --for` changed,
ends what its load left running, removes its test files, unmounts its file
system, and clears what dead emulated disks and recordings of block events
left. It finishes an `undo` that was cut short. Runs that are alive are left
alone, but for those that only wait to put something back (`set --for`): they
do it now.

What cannot be put back yet (a file system with test files is not mounted, a
disk that may have a run's file system is not there, a killed run has not
ended), what runs in another pid namespace, and what is not understood (an
entry of a newer version) stays, is named, and makes the exit code 1.")]
pub(crate) struct RestoreArgs {
    /// Say what would be put back, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Leave databases on servers of `tune --pg` for another time, as iosched-restore.service does at boot
    #[arg(long)]
    no_databases: bool,
}

#[derive(Serialize)]
struct Report {
    runs: Vec<RunReport>,
    not_understood: Vec<NotUnderstood>,
    undo_finished: Option<TakenBack>,
    /// Why one that was cut short is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo_not_finished: Option<String>,
    emulated_disks_cleared: Vec<String>,
    /// What of them is left, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    emulated_disks_left: Vec<(String, String)>,
    tracing_instances_removed: Vec<String>,
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of JSON")]
struct RunReport {
    command: String,
    pid: u32,
    still_running: bool,
    /// It was killed, or was to be ended, and does not end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    does_not_end: bool,
    /// It runs in a pid namespace that we do not see into.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    out_of_sight: bool,
    /// It waited to put something back (`set --for`), and did it now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    put_back_itself: bool,
    journal: PathBuf,
    undone: Vec<Undone>,
}

/// Runs `iosched restore`.
pub(crate) fn run(args: &RestoreArgs, output: &Output) -> Outcome {
    let host = Host::live();
    if let Err(cause) = journal::check_readable(&host) {
        return Err(boxed(unreadable(&journal::directory(&host), &cause)));
    }
    if args.dry_run {
        return foresee(&host, output);
    }
    journal::remove_unfinished(&host);
    let (leftovers, not_understood) = journal::read_all(&host);
    let parts = if args.no_databases {
        Parts::ButDatabases
    } else {
        Parts::All(iosched_experiment::load::undo_outside)
    };
    // The disks of all of them first: what else one of them left may have to be waited for.
    let mut runs: Vec<RunReport> = leftovers
        .iter()
        .map(|leftover| put_disks_back(&host, leftover))
        .collect();
    for (run, leftover) in runs.iter_mut().zip(&leftovers) {
        if !run.still_running {
            let rest = leftover.undo(&host, parts, &run.undone);
            run.undone.extend(rest);
        }
    }
    let (undo_finished, undo_not_finished) = match undo::finish(&host, &Stop::new(), output) {
        Ok(finished) => (finished, None),
        Err(failure) => (None, Some(failure)),
    };
    let (emulated_disks_cleared, emulated_disks_left) = match emulate::remove_remains() {
        Ok(removal) => {
            let failures = removal.failures.into_iter();
            let left = failures.map(|(id, failure)| (id, why(&failure)));
            (removal.removed, left.collect())
        }
        Err(failure) => (Vec::new(), vec![("all of them".into(), why(&failure))]),
    };
    let tracing_instances_removed = capture::remove_remains(&host);
    let undo_of_disks = undo_finished.iter().flat_map(|taken| &taken.disks);
    let is_settled = not_understood.is_empty()
        && emulated_disks_left.is_empty()
        && undo_not_finished.is_none()
        && !runs.iter().any(|run| run.does_not_end || run.out_of_sight)
        && runs
            .iter()
            .flat_map(|run| &run.undone)
            .chain(undo_of_disks)
            .all(Undone::is_settled);
    let report = Report {
        runs,
        not_understood,
        undo_finished,
        undo_not_finished: undo_not_finished.as_deref().map(why),
        emulated_disks_cleared,
        emulated_disks_left,
        tracing_instances_removed,
    };
    if output.is_json() {
        output.json(&report);
    } else {
        print(&report, output);
        if let Some(failure) = undo_not_finished {
            return Err(failure);
        }
    }
    Ok(if is_settled { exit::OK } else { exit::FAILURE })
}

/// Something may be left that we cannot see.
fn unreadable(journal: &Path, cause: &io::Error) -> Problem {
    let message = format!("cannot read the journal in {}: {cause}", journal.display());
    if cause.kind() == io::ErrorKind::PermissionDenied {
        Problem::new(exit::NOT_PERMITTED, message).hint("run it as root")
    } else {
        Problem::new(exit::FAILURE, message)
    }
}

/// A failure with its cause and its way out, in one line.
fn why(failure: &dyn Failure) -> String {
    let hint = failure.hint().map(|hint| format!(" ({hint})"));
    in_a_sentence(failure) + &hint.unwrap_or_default()
}

/// What there is to put back.
#[derive(Serialize)]
struct Forecast {
    runs: Vec<RunForecast>,
    not_understood: Vec<NotUnderstood>,
    undo_to_finish: Option<NextUndo>,
    emulated_disks_to_clear: Vec<String>,
    tracing_instances_to_remove: Vec<String>,
}

#[derive(Serialize)]
struct RunForecast {
    command: String,
    pid: u32,
    /// It would be left alone.
    still_running: bool,
    journal: PathBuf,
    would_do: Vec<Foreseen>,
}

/// Runs `iosched restore --dry-run`.
fn foresee(host: &Host, output: &Output) -> Outcome {
    let (leftovers, not_understood) = journal::read_all(host);
    let undo_to_finish = is_undo_cut_short(host).then(|| next_undo(host));
    let emulated = emulate::list().map_err(boxed)?.into_iter();
    let remains = emulated.filter(|disk| disk.condition == Condition::Remains);
    let forecast = Forecast {
        runs: leftovers
            .iter()
            .map(|left| foresee_run(host, left))
            .collect(),
        not_understood,
        undo_to_finish: undo_to_finish.transpose().map_err(boxed)?,
        emulated_disks_to_clear: remains.map(|disk| disk.id).collect(),
        tracing_instances_to_remove: capture::remains(host),
    };
    if output.is_json() {
        output.json(&forecast);
    } else {
        print_forecast(&forecast, output);
    }
    Ok(exit::OK)
}

fn foresee_run(host: &Host, leftover: &Leftover) -> RunForecast {
    let still_running = match leftover.run {
        RunState::Dead | RunState::Dying => false,
        RunState::OutOfSight => true,
        RunState::Alive => !leftover.is_waiting_to_revert(host),
    };
    RunForecast {
        command: leftover.entry.command.clone(),
        pid: leftover.entry.owner.pid,
        still_running,
        journal: leftover.path.clone(),
        would_do: if still_running {
            Vec::new()
        } else {
            leftover.foresee(host)
        },
    }
}

fn print_forecast(forecast: &Forecast, output: &Output) {
    let Forecast {
        runs,
        not_understood,
        undo_to_finish,
        emulated_disks_to_clear: disks,
        tracing_instances_to_remove: instances,
    } = forecast;
    let is_empty = runs.is_empty() && not_understood.is_empty() && disks.is_empty();
    if is_empty && undo_to_finish.is_none() && instances.is_empty() {
        output.line("nothing to restore: no run left anything");
    }
    for run in runs {
        if run.still_running {
            let text = format!(
                "pid {} still runs, would be left alone: {}",
                run.pid, run.command
            );
            output.line(&text);
            continue;
        }
        output.line(&format!("left by pid {}: {}", run.pid, run.command));
        for foreseen in &run.would_do {
            output.line(&format!("  {}", foretell(foreseen)));
        }
    }
    for NotUnderstood { path, cause } in not_understood {
        output.line(&format!(
            "{}: not understood, would be kept: {cause}",
            path.display()
        ));
    }
    if let Some(next) = undo_to_finish {
        undo::print_next(next, output);
    }
    for id in disks {
        output.line(&format!("would clear what the emulated disk {id} left"));
    }
    for name in instances {
        output.line(&format!("would remove the tracing instance {name}"));
    }
}

/// Puts the disks back that a run left changed, unless it is alive and does so itself. One that was killed may still be in a
/// system call, whose effect is to be put back too.
fn put_disks_back(host: &Host, leftover: &Leftover) -> RunReport {
    let is_to_end = leftover.is_waiting_to_revert(host);
    let does_not_end = match leftover.run {
        RunState::Dead | RunState::OutOfSight => false,
        RunState::Dying => !leftover.wait_for_end(host),
        RunState::Alive => is_to_end && !leftover.end_owner(host),
    };
    let out_of_sight = leftover.run == RunState::OutOfSight;
    let is_left_alone = leftover.run == RunState::Alive && !is_to_end;
    let still_running = is_left_alone || does_not_end || out_of_sight;
    RunReport {
        command: leftover.entry.command.clone(),
        pid: leftover.entry.owner.pid,
        still_running,
        does_not_end,
        out_of_sight,
        put_back_itself: is_to_end && !still_running,
        journal: leftover.path.clone(),
        undone: if still_running {
            Vec::new()
        } else {
            leftover.undo_disks(host)
        },
    }
}

fn print(report: &Report, output: &Output) {
    let Report {
        runs,
        not_understood,
        undo_finished,
        undo_not_finished,
        emulated_disks_cleared: disks,
        emulated_disks_left: left,
        tracing_instances_removed: instances,
    } = report;
    let has_undone =
        undo_finished.is_some() || !disks.is_empty() || !left.is_empty() || !instances.is_empty();
    if runs.is_empty() && not_understood.is_empty() && !has_undone && undo_not_finished.is_none() {
        output.line("nothing to restore: no run left anything");
    }
    for run in runs {
        if run.still_running {
            output.line(&format!(
                "pid {} still runs, left alone: {}",
                run.pid, run.command
            ));
            if run.out_of_sight {
                output.warn(
                    "hint: it runs in another pid namespace (a container?), where that is its number: end it there",
                );
            } else if run.does_not_end {
                output.warn("hint: it was killed and has not ended; run `iosched restore` again once it has");
            }
            continue;
        }
        output.line(&format!("left by pid {}: {}", run.pid, run.command));
        for undone in &run.undone {
            output.line(&format!("  {}", describe(undone)));
        }
        if run.undone.is_empty() {
            output.line(if run.put_back_itself {
                "  it has put back now what it was to put back later"
            } else {
                "  nothing was left to put back"
            });
        }
        hint_at_mount(run, output);
    }
    for NotUnderstood { path, cause } in not_understood {
        output.line(&format!(
            "{}: not understood, kept: {cause}",
            path.display()
        ));
        output.warn(
            "hint: a newer iosched may understand it, `iosched list` shows each disk's scheduler; remove it once \
             all is as it should be",
        );
    }
    if let Some(taken) = undo_finished {
        undo::print(taken, output);
    }
    for id in disks {
        output.line(&format!("cleared what the emulated disk {id} left"));
    }
    for (id, why) in left {
        let what = if id.contains(' ') {
            format!("the emulated disks ({id})") // no disk's id
        } else {
            format!("what the emulated disk {id} left")
        };
        output.line(&format!("{what}: not put back: {why}"));
    }
    for name in instances {
        output.line(&format!("removed the tracing instance {name}"));
    }
}

/// What to do about what cannot be reached.
fn hint_at_mount(run: &RunReport, output: &Output) {
    let what = run.undone.iter().find_map(|undone| match undone {
        Undone::As(Resolution::NotMounted { .. }) => Some("mount it there"),
        Undone::As(Resolution::Away { .. }) => Some("attach that disk"),
        _ => None,
    });
    if let Some(what) = what {
        output.warn(&format!(
            "hint: {what}, then run `iosched restore` again; if it is gone for good: rm {}",
            run.journal.display()
        ));
    }
}
