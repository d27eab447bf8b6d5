//! How long I/Os took, by percentile, where the tail shows.

use iosched_experiment::trial::{Flow, JobResult, latency_histogram};
use iosched_stats::histogram::Histogram;

use super::{Source, ratio::id};
use crate::chart::{Axis, Chart, Form, Point, Scale, Series, thin};
use crate::units::MILLISECONDS;
use crate::words::{milliseconds, percent};

/// Percentiles that the axis names and the words tell.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// Which I/Os of a worker.
type Pick = fn(&JobResult) -> Vec<&Flow>;

/// Percentiles of a load's latencies: reads and writes apart where it has both.
/// A database's transactions stand alone.
pub(super) fn charts(of: &Source, load: usize) -> Vec<Chart> {
    let reads: Pick = |job| job.read.iter().collect();
    let writes: Pick = |job| job.write.iter().collect();
    let transactions: Pick = |job| job.transactions.iter().collect();
    let all: Pick = JobResult::flows;
    let has = |pick: Pick| {
        let jobs = of.record.trials().filter(|trial| trial.slot.load == load);
        jobs.flat_map(|trial| &trial.jobs)
            .any(|job| !pick(job).is_empty())
    };
    let kinds: Vec<(&str, &str, Pick)> = if has(reads) && has(writes) {
        vec![("reads", "-reads", reads), ("writes", "-writes", writes)]
    } else {
        vec![(
            if has(transactions) {
                "transactions"
            } else {
                "I/Os"
            },
            "",
            all,
        )]
    };
    kinds
        .into_iter()
        .map(|(what, suffix, pick)| {
            by_percentile(of, load, (what, suffix), &histograms(of, load, pick))
        })
        .collect()
}

/// The latencies of each arm, counted over all its trials.
fn histograms(of: &Source, load: usize, pick: Pick) -> Vec<(usize, Histogram)> {
    (0..of.analysis.arms.len())
        .map(|arm| {
            let jobs = of.trials(load, arm).flat_map(|trial| &trial.jobs);
            let flows: Vec<&Flow> = jobs.flat_map(pick).collect();
            (arm, latency_histogram(&flows))
        })
        .filter(|(_, histogram)| histogram.count() > 0)
        .collect()
}

/// Where a share lies on an axis that gives each further nine the same room.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

fn by_percentile(
    of: &Source,
    load: usize,
    (what, suffix): (&str, &str),
    arms: &[(usize, Histogram)],
) -> Chart {
    let series = arms.iter().map(|(arm, histogram)| {
        let label = &of.analysis.arms[*arm];
        let count = histogram.count() as f64;
        let points = histogram.cdf().into_iter().map(|(ns, share)| {
            // The slowest of all has no place on this axis; half an I/O stands for it.
            let share = share.min(1.0 - 0.5 / count);
            let ms = ns as f64 / MILLISECONDS.size;
            let words = format!(
                "{label}: {} within {} ms",
                percent_of(share),
                milliseconds(ns as f64)
            );
            Point::new(nines(share), ms, words)
        });
        Series {
            name: label.clone(),
            slot: *arm,
            form: Form::Line,
            points: thin::thin(points.collect()),
        }
    });
    let most = arms
        .iter()
        .map(|(_, histogram)| histogram.count())
        .max()
        .unwrap_or(1);
    let places = PERCENTILES
        .into_iter()
        .map(|percent| (nines(percent / 100.0), format!("{percent} %")))
        .filter(|(place, _)| *place < (most as f64).log10() + 0.3);
    Chart {
        id: format!("{}{suffix}", id("latency", of, load)),
        title: format!("Latency of {what} by percentile{}", of.place(load)),
        caption: format!(
            "So many of all {what} took no longer than this; each further nine has the same room. \
             Lower is better. Counted over all trials of an arm."
        ),
        alternative: percentiles_in_words(of, arms),
        x: Axis::new(format!("share of {what}"), Scale::Named(places.collect())),
        y: Axis::new("latency, ms", Scale::Log),
        series: series.collect(),
        marks: Vec::new(),
        trials: of.numbers(Some(load)),
    }
}

/// `99.97 %`, with as many nines as it has.
fn percent_of(share: f64) -> String {
    let digits = (nines(share).ceil() - 1.0).clamp(0.0, 6.0);
    let factor = 10f64.powf(digits + 2.0);
    if digits < 1.0 {
        return percent(share);
    }
    format!("{} %", (share * factor).floor() / factor * 100.0)
}

fn percentiles_in_words(of: &Source, arms: &[(usize, Histogram)]) -> String {
    let words = arms.iter().map(|(arm, histogram)| {
        let told = PERCENTILES
            .iter()
            .filter(|percent| histogram.count() as f64 * (1.0 - **percent / 100.0) >= 1.0);
        let told: Vec<String> = told
            .filter_map(|percent| {
                let ns = histogram.percentile(*percent)?;
                Some(format!("{percent} % within {} ms", milliseconds(ns as f64)))
            })
            .collect();
        format!("{}: {}", of.analysis.arms[*arm], told.join(", "))
    });
    words.collect::<Vec<_>>().join("; ")
}
