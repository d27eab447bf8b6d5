//! `iosched conform`: does our scheduler decide what the kernel's did?

mod live;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use iosched_conform::{Conformance, Report, StartState};
use iosched_experiment::simulate::conform;
use iosched_experiment::simulate::initial::Initial;
use iosched_experiment::simulate::recordings;
use iosched_experiment::simulate::settings::SchedulerRequest;
use iosched_machine::failure::{Failure, Problem, exit};

use self::live::LiveArgs;
use super::{Outcome, boxed};
use crate::output::Output;
use crate::values::{MORE, parse_micros, usual_hz_in_words};

/// Arguments of `iosched conform`.
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = live::HELP)]
pub(crate) struct ConformArgs {
    /// Recordings of a kernel, or directories of them
    #[arg(
        required_unless_present = "live",
        conflicts_with = "live",
        value_name = "TRACE",
        long_help = "Recordings: text of iosched, blkparse or the kernel's blk tracer, also compressed; or directories of \
                     them"
    )]
    traces: Vec<PathBuf>,

    #[arg(
        long,
        value_name = "SCHEDULER",
        help = "Scheduler to compare with, and its tunables",
        long_help = "Our scheduler, as NAME or NAME:TUNABLE=VALUE,…; `kernel=6.1` names the kernel whose rules hold. With \
                     --live: repeatable "
    )]
    scheduler: Vec<String>,

    /// Queue depth of the disk [default: the recording's; with --live, the model's]
    #[arg(long, value_name = "N", hide_short_help = true)]
    queue_depth: Option<usize>,

    /// The recorded device was not rotational
    #[arg(
        long,
        alias = "non-rotational",
        conflicts_with = "live",
        hide_short_help = true
    )]
    no_rotational: bool,

    #[arg(long, value_name = "N", hide_short_help = true, help = format!(
        "Ticks per second of the recorded kernel [default: {}]",
        usual_hz_in_words()
    ))]
    hz: Option<u32>,

    /// Time from the last tick to the recording's start, in µs if it has no unit [default: searched for]
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        value_parser = parse_micros,
        conflicts_with = "live",
        hide_short_help = true
    )]
    tick_phase: Option<f64>,

    /// File of lines `path: value` with tunables and limits of the queue [default: tunables.txt beside the recording]
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "live",
        hide_short_help = true
    )]
    tunables: Option<PathBuf>,

    /// State of the scheduler when a recording began, or a file of states (see below) [default: for bfq
    /// `start_states.json` above the directory]
    #[arg(
        long,
        value_name = "NAME=VALUE,…",
        conflicts_with = "live",
        hide_short_help = true
    )]
    initial: Option<String>,

    /// Exit code 0 if ours agrees, 23 if not
    #[arg(
        long_help = "Exit code 0 if ours agrees on this percentage of the decisions between two requests or more, in each \
                     recording; 23 if not [default: 99.9]",
        long,
        value_name = "PERCENT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "99.9",
        value_parser = parse_percent
    )]
    exit_code: Option<f64>,

    #[command(flatten)]
    live: LiveArgs,
}

impl ConformArgs {
    /// What `--exit-code` tells of the recordings or runs, if it is given.
    fn answer_code<'a>(&self, mut followed: impl Iterator<Item = &'a Conformance>) -> Option<u8> {
        let wanted = self.exit_code? / 100.0;
        let agrees = followed.all(|one| {
            one.agreement_with_choice
                .is_some_and(|share| share >= wanted)
        });
        Some(if agrees { exit::OK } else { exit::DISAGREES })
    }
}

/// `99.9`, a number of percent.
fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "a number from 0 to 100 is wanted".to_owned())
}

/// Runs `iosched conform`. With `--json`, one object for each recording, one to a line.
pub(crate) fn run(args: &ConformArgs, output: &Output) -> Outcome {
    if args.live.live {
        return live::run(args, output);
    }
    let scheduler = scheduler(args)?;
    let wanted = SchedulerRequest {
        scheduler: scheduler.clone(),
        tunables: args.tunables.clone(),
        hz: args.hz,
        tick_phase_us: args.tick_phase,
        non_rotational: args.no_rotational,
        queue_depth: args.queue_depth,
        ..SchedulerRequest::default()
    };
    let initial = args
        .initial
        .as_deref()
        .map(Initial::parse)
        .transpose()
        .map_err(boxed)?;
    let (mut followed, mut failures, mut code) = (0, Vec::new(), exit::OK);
    let mut tell_one = |result: Result<Conformance, Problem>| match result {
        Ok(conformance) if output.is_json() => {
            followed += 1;
            output.json(&conformance);
        }
        Ok(conformance) => {
            followed += 1;
            if let Some(recorded) = other_scheduler(&conformance) {
                let (trace, scheduler) = (&conformance.trace, &conformance.scheduler);
                output.note(&format!(
                    "{trace} was recorded under {recorded}, and is followed with {scheduler}"
                ));
            }
            output.text(&text(&conformance));
        }
        Err(failure) => failures.push(failure),
    };
    let tell = |result: Result<Conformance, Problem>| {
        let told = args.answer_code(result.iter());
        code = code.max(told.unwrap_or(exit::OK));
        tell_one(result);
    };
    conform::follow_all(&args.traces, &wanted, initial.as_ref(), tell).map_err(boxed)?;
    let Some(last) = failures.pop() else {
        return Ok(code);
    };
    if followed == 0 && failures.is_empty() {
        return Err(boxed(last));
    }
    failures.push(last);
    for failure in &failures {
        output.failure(failure);
    }
    let failed = failures.len();
    let of = followed + failed;
    let message = format!("{failed} of {of} recordings could not be followed");
    Err(boxed(Problem::new(exit::FAILURE, message)))
}

/// The one that is to follow: as said, or as the recordings say.
fn scheduler(args: &ConformArgs) -> Result<String, Box<dyn Failure>> {
    match args.scheduler.as_slice() {
        [one] => Ok(one.clone()),
        [_, _, ..] => Err(boxed(
            Problem::usage("recordings are followed with one scheduler at a time")
                .hint("give --scheduler once, or run it once for each"),
        )),
        [] => conform::recorded_scheduler(&args.traces).map_err(boxed),
    }
}

/// Under which scheduler it was recorded, if that is known to be another one.
fn other_scheduler(conformance: &Conformance) -> Option<String> {
    let recorded = recordings::named_scheduler(Path::new(&conformance.trace))?;
    let name = recorded.split(':').next().unwrap_or_default().to_owned();
    (name != conformance.scheduler).then_some(name)
}

/// What a count of them is called.
const INTERRUPTED: &str = "of these with a completion or a tick in the midst of the choice";

/// On how many decisions ours agrees, and on how many of those in which there was a choice.
fn agreement(report: &Report) -> String {
    let percent = |agreed: u64, of: u64, share: Option<f64>| {
        let share = share.map_or("none".to_owned(), |share| format!("{:.3} %", share * 100.0));
        format!("{agreed} of {of} decisions ({share})")
    };
    let all = percent(report.agreed, report.decisions, report.agreement());
    let share = report.agreement_with_choice();
    let with_choice = if share.is_none() {
        "no decision had a choice: never did two requests wait".to_owned()
    } else {
        let some = percent(report.agreed_with_choice, report.with_choice, share);
        format!("with a choice: {some}")
    };
    format!("{all}\n  {with_choice}\n")
}

/// What a count of such is called.
const ENDED: &str = "of these with a process that had ended a little earlier than is known";

/// What a count of those is called.
const OUT_OF_ORDER: &str = "of these issued one later than dispatched, by two processors at once";

/// What a count of those is called.
const AHEAD: &str =
    "of these chosen while other choices waited for a tag, by several processors at once";

/// What a count of moments is called.
const EAGER: &str = "moments where ours would not have held back";

/// What a count of events is called.
const UNEXPLAINED: &str = "events that do not fit what went before";

/// The counts of which there is anything to be said, a line each.
fn told(counts: &[(u64, &str)]) -> String {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    some.fold(String::new(), |text, (count, what)| {
        format!("{text}  {count} {what}\n")
    })
}

/// The recording's figures, and the first disagreements in words.
pub(super) fn text(conformance: &Conformance) -> String {
    let Conformance {
        trace,
        scheduler,
        report,
        ..
    } = conformance;
    let mut text = format!("{trace}: {scheduler} agrees on {}", agreement(report));
    if conformance.start_state == StartState::Found {
        let values = &conformance.start_values;
        let _ = writeln!(
            text,
            "  as if it began with {values}: found, with what went before less agrees"
        );
    }
    let counts = [
        (report.issued_out_of_order, OUT_OF_ORDER),
        (report.chosen_ahead, AHEAD),
        (report.interrupted, INTERRUPTED),
        (report.ended, ENDED),
        (report.eager, EAGER),
        (
            report.merge_mismatches,
            "merges that only one of the two made",
        ),
        (report.unexplained, UNEXPLAINED),
    ];
    text.push_str(&told(&counts));
    if report.depth_changes > 0 {
        let (agreed, all) = (report.depth_changes_agreed, report.depth_changes);
        let _ = writeln!(
            text,
            "  {agreed} of {all} changes of depth in the same tick"
        );
    }
    for one in report.first_disagreements.iter().take(5) {
        let _ = writeln!(
            text,
            "  at {:.3} µs: recorded {}, ours {}",
            one.time_us, one.recorded, one.ours
        );
    }
    text
}
