//! Throughput against the tail of latency: what one arm gains here it may lose there.

use super::{Source, ratio::id};
use crate::chart::{Axis, Chart, Form, Point, Scale, Series, in_words, thin};
use crate::units::{MEGABYTES, MILLISECONDS};
use crate::words::{megabytes, milliseconds};

/// Every trial as a speck, every arm over all its trials as a marker.
pub(super) fn chart(of: &Source, load: usize) -> Chart {
    let arms = || of.analysis.arms.iter().enumerate();
    let trials = arms().map(|(arm, label)| {
        let points = of.trials(load, arm).filter_map(|trial| {
            let p99 = trial.metrics.all.as_ref()?.p99_ns;
            let throughput = trial.metrics.throughput_bytes_per_s;
            let name = format!("trial {}, {label}", trial.sequence + 1);
            Some(point(&name, throughput, p99))
        });
        let mut points: Vec<Point> = points.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series {
            name: label.clone(),
            slot: arm,
            form: Form::Specks,
            points: thin::thin(points),
        }
    });
    let means: Vec<Series> = arms()
        .map(|(arm, label)| {
            let summary = &of.analysis.loads[load].arms[arm];
            let both = summary.throughput_bytes_per_s.zip(summary.latency_p99_ns);
            Series {
                name: label.clone(),
                slot: arm,
                form: Form::Dots,
                points: both
                    .map(|(rate, p99)| point(label, rate, p99))
                    .into_iter()
                    .collect(),
            }
        })
        .collect();
    Chart {
        id: id("tradeoff", of, load),
        title: format!("Throughput against latency{}", of.place(load)),
        caption: "Large: an arm over all its trials; small: single trials. Best is right and low."
            .into(),
        alternative: in_words(&means),
        x: Axis::new("throughput, MB/s", Scale::Linear),
        y: Axis::new("99th percentile of latency, ms", Scale::Log),
        series: trials.chain(means.iter().cloned()).collect(),
        marks: Vec::new(),
        trials: of.numbers(Some(load)),
    }
}

fn point(name: &str, bytes_per_s: f64, p99_ns: f64) -> Point {
    let words = format!(
        "{name}: {} MB/s, p99 {} ms",
        megabytes(bytes_per_s),
        milliseconds(p99_ns)
    );
    Point::new(
        bytes_per_s / MEGABYTES.size,
        p99_ns / MILLISECONDS.size,
        words,
    )
}
