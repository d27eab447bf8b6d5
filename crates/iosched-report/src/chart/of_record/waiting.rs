//! How long a request takes from the queue to its completion, and where it spends that time.

use iosched_experiment::analysis::{ArmSummary, SplitSummary};

use super::{Source, ratio::id};
use crate::chart::split::{Waited, rows, series};
use crate::chart::{Axis, Chart, Form, Point, Scale, Series, in_words};
use crate::units::MILLISECONDS;
use crate::words::significant;

/// A number of an arm.
type OfArm = fn(&ArmSummary) -> Option<f64>;

/// Where one kind of request spent its time under an arm.
type SplitOfArm = fn(&ArmSummary) -> Option<SplitSummary>;

/// What such a time depends on besides.
const IN_FLIGHT: &str =
    "For a load with a fixed number of I/Os in flight, more throughput is less of it.";

/// Why a part's 99th percentile can be above the whole's.
const TAILS: &str = " The 99th percentiles of the parts are read from bins that are up to 6 % off, and are of all requests \
                     until the end of a trial: they can be larger than the p99 of the table, which is exact to 1 % and leaves \
                     out, where it can, what is under way at the end.";

/// Reads and writes of each arm: time in the queue and at the disk where these were recorded, the
/// whole where not.
pub(super) fn chart(of: &Source, load: usize) -> Chart {
    let bars = bars(of, load);
    if bars.is_empty() {
        return whole(of, load);
    }
    let series = series(&bars);
    Chart {
        id: id("split", of, load),
        title: format!("Where a request spends its time{}", of.place(load)),
        caption: format!(
            "Mean over the requests of all trials: in the queue, from its insertion until the driver took \
             it (nothing without a scheduler), and at the disk, from there to completion; both together make \
             iostat's await, which also counts syncs among the writes.{}{TAILS}{}{} {IN_FLIGHT}",
            before(&bars),
            sampled(of, load),
            lost(of, load)
        ),
        alternative: in_words(&series),
        x: Axis::new(
            format!("mean time of {}, ms", kinds_of(&bars)),
            Scale::FromZero,
        ),
        y: rows(&bars),
        series,
        marks: Vec::new(),
        trials: of.numbers(Some(load)),
    }
}

/// A bar for each kind of request of each arm; short names, for a phone.
fn bars(of: &Source, load: usize) -> Vec<Waited> {
    let arms = &of.analysis.loads[load].arms;
    let kinds: [(&str, SplitOfArm); 2] = [
        ("reads", |arm| arm.read_split),
        ("writes", |arm| arm.write_split),
    ];
    let is_seen = |of_arm: &SplitOfArm| arms.iter().any(|arm| of_arm(arm).is_some());
    let is_only = kinds.iter().filter(|(_, of_arm)| is_seen(of_arm)).count() == 1;
    let mut bars = Vec::new();
    for (arm, label) in arms.iter().zip(&of.analysis.arms) {
        for (kind, of_arm) in &kinds {
            let Some(split) = of_arm(arm) else { continue };
            bars.push(Waited {
                row: if is_only {
                    label.clone()
                } else {
                    format!("{label} {}", &kind[..1])
                },
                of: format!("{label}, {kind}"),
                before_ns: split.before_mean_ns,
                queue_ns: split.queue_mean_ns,
                service_ns: split.service_mean_ns,
                tails_ns: Some((split.queue_p99_ns, split.service_p99_ns)),
            });
        }
    }
    bars
}

/// What the bars are of.
fn kinds_of(bars: &[Waited]) -> &'static str {
    let has = |kind: &str| bars.iter().any(|waited| waited.of.ends_with(kind));
    match (has("reads"), has("writes")) {
        (true, true) => "reads (r) and writes (w)",
        (true, false) => "reads",
        _ => "writes",
    }
}

/// What the program waited besides, if that is known.
fn before(bars: &[Waited]) -> &'static str {
    if bars.iter().any(|waited| waited.before_ns.is_some()) {
        " Before the queue a program waits while no request or tag is free, and until it runs again: its own \
         latency without the other two."
    } else {
        ""
    }
}

/// Of how many requests one was followed, where it was not all.
fn sampled(of: &Source, load: usize) -> String {
    let trials = of.record.trials().filter(|trial| trial.slot.load == load);
    let splits = trials.filter_map(|trial| trial.measured.split.as_ref());
    match splits.map(|split| split.one_in).max() {
        Some(most) if most > 1 => format!(
            " So many requests came that one in up to {most} was followed, chosen by its place on the disk."
        ),
        _ => String::new(),
    }
}

/// What the kernel could not keep.
fn lost(of: &Source, load: usize) -> String {
    let trials = of.record.trials().filter(|trial| trial.slot.load == load);
    let splits = trials.filter_map(|trial| trial.measured.split.as_ref());
    match splits.map(|split| split.lost_events).sum::<u64>() {
        0 => String::new(),
        lost => format!(" The kernel lost {lost} events; their requests are not counted."),
    }
}

/// Why the parts are not known.
fn why_whole(of: &Source) -> String {
    let header = &of.record.header;
    match &header.machine.no_tracing {
        _ if !header.plan.split => "no tracing was asked for".to_owned(),
        Some(reason) => format!("no tracing, because {reason}"),
        None => "no tracing, because it failed".to_owned(),
    }
}

/// The whole of it alone, and why.
fn whole(of: &Source, load: usize) -> Chart {
    let kinds: [(&str, OfArm); 2] = [
        ("reads", |arm| arm.read_await_ns),
        ("writes", |arm| arm.write_await_ns),
    ];
    let series: Vec<Series> = kinds
        .into_iter()
        .enumerate()
        .map(|(slot, (name, of_arm))| {
            let points = of
                .analysis
                .arms
                .iter()
                .enumerate()
                .filter_map(|(arm, label)| {
                    let ms = of_arm(&of.analysis.loads[load].arms[arm])? / MILLISECONDS.size;
                    let y = 0.19 - 0.38 * slot as f64 - arm as f64;
                    let words = format!("{label}, {name}: {} ms", significant(ms));
                    Some(Point::new(ms, y, words))
                });
            Series {
                name: name.to_owned(),
                slot: slot + of.analysis.arms.len(),
                form: Form::Bars(0.36),
                points: points.collect(),
            }
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    // One kind alone has no legend to say which it is.
    let title = match series.as_slice() {
        [only] => format!("await of {}, ms", only.name),
        _ => "await, ms".into(),
    };
    Chart {
        id: id("await", of, load),
        title: format!("Time per request at the disk{}", of.place(load)),
        caption: format!(
            "The kernel's own count (iostat's await): from the queue to completion, mean over the \
             requests of all trials. Time in the queue and at the disk are not told apart: {}. {IN_FLIGHT}",
            why_whole(of)
        ),
        alternative: in_words(&series),
        x: Axis::new(title, Scale::FromZero),
        y: Axis::names(of.analysis.arms.iter().map(String::as_str)),
        series,
        marks: Vec::new(),
        trials: of.numbers(Some(load)),
    }
}
