//! `iosched set`: switch now, with read-back; for a while only, if asked.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use iosched_machine::command_line::Remedy;
use iosched_machine::device::{FileSystem, Target};
use iosched_machine::failure::{Problem, Remediable, exit};
use iosched_machine::host::Host;
use iosched_machine::process::{Owner, Stop};
use iosched_policy::set::{Change, Settled};
use iosched_switch::journal::{Handover, Held, Journal, Parts, Undone};
use iosched_switch::{self as switch, Arm, Difference, lock};
use serde::Serialize;

use super::{Outcome, boxed, stop_on_signals, take_turn, undo};
use crate::output::Output;
use crate::values::Span;

/// Arguments of `iosched set`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched set sda bfq                   until the next reboot
  iosched set sda mq-deadline fifo_batch=1 nr_requests=64
  iosched set /dev/md0 none             on every member disk of the array
  iosched set sda kyber --for 10m       and back by itself, come what may
  iosched set sda deadline              old names are understood: mq-deadline

Everything is read back; what the kernel took otherwise than asked is said. If
one of several disks refuses, all are put back.")]
pub(crate) struct SetArgs {
    /// Device, partition, array or volume: sda, /dev/disk/by-id/..., md0
    device: String,

    /// Scheduler: one of those that `iosched list` shows, or noop, deadline, cfq
    scheduler: String,

    /// Tunables of the scheduler or of the queue, set in the order that the kernel needs
    #[arg(value_name = "TUNABLE=VALUE")]
    tunables: Vec<String>,

    /// Put everything back after this time (90s, 10m, 2h), even if the terminal dies
    #[arg(long = "for", value_name = "TIME")]
    for_how_long: Option<Span>,

    /// Say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of the process that puts things back later.
#[derive(Debug, Args)]
pub(crate) struct RevertArgs {
    journal: PathBuf,
    seconds: f64,
}

#[derive(Serialize)]
struct Report {
    dry_run: bool,
    disks: Vec<DiskReport>,
    notes: Vec<String>,
    reverts_after_s: Option<f64>,
}

#[derive(Serialize)]
struct DiskReport {
    device: String,
    before: switch::QueueState,
    asked: Arm,
    after: Option<switch::QueueState>,
    adjusted: Vec<switch::Adjusted>,
    /// What the kernel changed besides: `expected` is what it was, `found` what it is.
    side_effects: Vec<Difference>,
}

impl Report {
    fn new(args: &SetArgs, change: &Change) -> Report {
        let of_disk = |(device, before, asked): &(String, switch::QueueState, Arm)| DiskReport {
            device: device.clone(),
            before: before.clone(),
            asked: asked.clone(),
            after: None,
            adjusted: Vec::new(),
            side_effects: Vec::new(),
        };
        Report {
            dry_run: args.dry_run,
            disks: change.disks.iter().map(of_disk).collect(),
            notes: change.notes.clone(),
            reverts_after_s: args.for_how_long.map(|span| span.0.as_secs_f64()),
        }
    }
}

/// A directory or file stands for no device here; which one it is on, and the command for that.
fn device_meant(host: &Host, target: &str, problem: Problem) -> Remediable {
    match Target::find(host, target) {
        Ok(Target::FileSystem(FileSystem { devices, .. })) => {
            let device = devices[0].name.clone();
            Remediable {
                problem: problem.hint(format!("{target} is on {device}")),
                remedy: Some(Remedy::Instead {
                    of: target.to_owned(),
                    with: device,
                }),
            }
        }
        _ => problem.into(),
    }
}

/// Runs `iosched set`.
pub(crate) fn run(args: &SetArgs, output: &Output) -> Outcome {
    let host = Host::live();
    let words = args.tunables.iter().map(String::as_str);
    let arm = Arm::new(&args.scheduler, words).map_err(boxed)?;
    if !args.dry_run {
        undo::finish_or_note(&host, &Stop::new(), output);
    }
    let plan = || {
        let planned = Change::plan(&host, &args.device, &arm);
        planned.map_err(|problem| boxed(device_meant(&host, &args.device, problem)))
    };
    // What cannot be set is refused before we wait for our turn, in which the machine may be another one.
    let mut change = plan()?;
    let mut report = Report::new(args, &change);
    if args.dry_run {
        for (disk, _, arm) in &change.disks {
            lock::check_may_lock(&host, disk)?;
            switch::foresee(&host.sysfs(), disk, arm).map_err(boxed)?;
        }
    } else {
        let stop = Stop::new();
        let turn = take_turn(&host, &stop, output)?;
        // While we wait for it a signal ends us at once, and nothing was changed; from here on it puts back.
        stop_on_signals(&stop);
        change = plan()?;
        report = Report::new(args, &change);
        let made = change.make(&host)?;
        if stop.is_wanted() {
            let interrupted = Problem::new(exit::INTERRUPTED, "interrupted: nothing was set");
            return Err(made.take_back(interrupted).into());
        }
        let settled = made.settled.iter();
        report.notes.extend(settled.flat_map(Settled::notes));
        for (disk, (_, entered)) in report.disks.iter_mut().zip(&made.disks) {
            disk.after = Some(entered.state.clone());
            disk.adjusted.clone_from(&entered.adjusted);
            let asked = disk.asked.tunables.iter().cloned().collect();
            disk.side_effects = disk.before.side_effects(&entered.state, &asked);
        }
        match args.for_how_long {
            Some(span) => revert_later(&host, made.journal, span.0).map_err(boxed)?,
            None => made.keep(&turn, None)?,
        }
    }
    print(&report, output);
    Ok(exit::OK)
}

fn print(report: &Report, output: &Output) {
    if output.is_json() {
        output.json(report);
        return;
    }
    for note in &report.notes {
        output.warn(&format!("note: {note}"));
    }
    for disk in &report.disks {
        let before = &disk.before.scheduler;
        let asked = &disk.asked;
        match &disk.after {
            None => output.line(&format!(
                "{}: {before} -> {asked} (not written)",
                disk.device
            )),
            Some(after) => {
                output.line(&format!("{}: {before} -> {}", disk.device, after.scheduler));
                for (tunable, asked) in &disk.asked.tunables {
                    match disk
                        .adjusted
                        .iter()
                        .find(|adjusted| adjusted.tunable == *tunable)
                    {
                        Some(adjusted) => output.line(&format!(
                            "  {tunable}={} (the kernel's choice; {asked} was asked)",
                            adjusted.got
                        )),
                        None => output.line(&format!("  {tunable}={asked}")),
                    }
                }
                for Difference {
                    file,
                    expected,
                    found,
                } in &disk.side_effects
                {
                    let name = file.trim_start_matches("queue/");
                    output.line(&format!(
                        "  {name}={found} (the kernel's doing; it was {expected})"
                    ));
                }
            }
        }
    }
    if let Some(seconds) = report.reverts_after_s {
        let (would, at_once) = if report.dry_run {
            ("would be ", "")
        } else {
            ("", ", or at once with `iosched restore`")
        };
        output.line(&format!("{would}back as before in {seconds} s{at_once}"));
    }
}

/// Leaves the journal to a process of its own session, which outlives this terminal.
fn revert_later(host: &Host, journal: Journal, after: Duration) -> Result<(), Problem> {
    let executable = std::env::current_exe().map_err(not_started)?;
    let mut command = Command::new(executable);
    command
        .arg("revert-after")
        .arg(journal.path())
        .arg(after.as_secs_f64().to_string())
        .current_dir("/")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: setsid is async-signal-safe, and nothing is allocated between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?));
    }
    journal.hand_over(|file| {
        let child = command.stdin(file).spawn()?;
        let owner = Owner::of_pid(host, child.id());
        owner.ok_or_else(|| io::Error::other("it ended at once"))
    })
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_started(error: io::Error) -> Problem {
    let message = "cannot start the process that puts it back; it was put back at once";
    Problem::new(exit::FAILURE, format!("{message}: {error}"))
}

/// The process that waits and puts things back; SIGTERM means now. Its standard input is the entry that it is to have;
/// where that is not to be, since `set` was killed or another command has put all back, it ends.
pub(crate) fn revert_after(args: &RevertArgs) -> Outcome {
    let stop = Stop::new();
    stop_on_signals(&stop);
    let host = Host::live();
    let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let file = file.map_err(not_started)?;
    let held = Held::new(&host, &args.journal, file).map_err(boxed)?;
    let after = Duration::try_from_secs_f64(args.seconds.max(0.0));
    let deadline = after
        .ok()
        .and_then(|after| Instant::now().checked_add(after));
    let left = || match deadline {
        Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        None => Duration::MAX,
    };
    loop {
        match held.turn() {
            Handover::Over => return Ok(exit::OK),
            Handover::Ours if left().is_zero() || stop.is_wanted() => break,
            Handover::Ours | Handover::NotYet => {}
        }
        std::thread::sleep(left().clamp(Duration::from_millis(1), Duration::from_millis(100)));
    }
    let undone = held.undo(Parts::ButDatabases);
    let is_settled = undone.iter().all(Undone::is_settled);
    Ok(if is_settled { exit::OK } else { exit::FAILURE })
}
