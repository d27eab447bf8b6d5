//! Each arm's own numbers as bars: throughput and CPU time.

use iosched_experiment::analysis::ArmSummary;
use iosched_experiment::trial::Trial;

use super::{Rows, Source, ratio::id};
use crate::chart::id_of;
use crate::chart::{Axis, Chart, Form, Point, Scale, Series, in_words};
use crate::units::{MEGABYTES, MICROSECONDS, Unit};
use crate::words::{clipped, significant};

/// A number of an arm.
type OfArm = fn(&ArmSummary) -> Option<f64>;

/// A number of an arm, and the same of one of its trials.
struct Figure {
    unit: Unit,
    of_arm: OfArm,
    of_trial: fn(&Trial) -> Option<f64>,
}

/// Loads whose numbers differ by more than this have a chart each: the smaller ones' bars would not
/// be seen.
const MOST_APART: f64 = 10.0;

/// Throughput per load and arm: the picture that articles have. Of a sweep a chart for each test, with a
/// row for each number of threads.
pub(super) fn throughput(of: &Source) -> Vec<Chart> {
    let figure = Figure {
        unit: MEGABYTES,
        of_arm: |arm| arm.throughput_bytes_per_s,
        of_trial: |trial| Some(trial.metrics.throughput_bytes_per_s),
    };
    let tests = of.tests();
    if !tests.is_empty() {
        let each = tests.into_iter().map(|(test, loads)| {
            let place = format!(" in {}", clipped(&test).to_lowercase());
            throughput_of(of, &figure, &loads, id_of(&["throughput", &test]), &place)
        });
        return each.collect();
    }
    let all: Vec<usize> = (0..of.analysis.loads.len()).collect();
    let most = |load: &usize| {
        let arms = of.analysis.loads[*load].arms.iter();
        arms.filter_map(figure.of_arm).fold(0.0, f64::max)
    };
    let largest = all.iter().map(most).fold(0.0, f64::max);
    let smallest = all.iter().map(most).fold(f64::MAX, f64::min);
    if largest <= smallest * MOST_APART {
        return vec![throughput_of(of, &figure, &all, "throughput".into(), "")];
    }
    let each = all.iter().map(|&load| {
        let name = id("throughput", of, load);
        throughput_of(of, &figure, &[load], name, &of.place(load))
    });
    each.collect()
}

fn throughput_of(of: &Source, figure: &Figure, loads: &[usize], id: String, place: &str) -> Chart {
    Chart {
        id,
        title: format!("Throughput{place}"),
        caption:
            "Mean over the trials; the whisker reaches from the lowest trial to the highest. It is \
                  no interval: trials of different rounds are not comparable, the ratios above are."
                .into(),
        x: Axis::new("throughput, MB/s", Scale::FromZero),
        ..grouped(of, figure, loads)
    }
}

/// CPU time per I/O, in which is what a scheduler costs.
pub(super) fn cpu(of: &Source) -> Chart {
    let figure = Figure {
        unit: MICROSECONDS,
        of_arm: |arm| arm.cpu_ns_per_io,
        of_trial: |trial| trial.metrics.cpu_ns_per_io,
    };
    Chart {
        id: "cpu".into(),
        title: "CPU time per I/O".into(),
        caption:
            "Of the whole machine, divided by the I/Os of the load: with what the load's own programs, the rest of the \
                  kernel and everything else took that ran meanwhile. A difference between arms is the scheduler's as \
                  far as the rest was the same. Mean, lowest and highest trial."
                .into(),
        x: Axis::new("CPU time per I/O, µs", Scale::FromZero),
        ..grouped(
            of,
            &figure,
            &(0..of.analysis.loads.len()).collect::<Vec<_>>(),
        )
    }
}

fn grouped(of: &Source, figure: &Figure, loads: &[usize]) -> Chart {
    let rows = Rows {
        arms: of.analysis.arms.len(),
        loads: loads.len(),
    };
    let series: Vec<Series> = (0..of.analysis.arms.len())
        .map(|arm| Series {
            name: of.analysis.arms[arm].clone(),
            slot: arm,
            form: Form::Bars(rows.thickness()),
            points: loads
                .iter()
                .enumerate()
                .filter_map(|(row, &load)| bar(of, (load, arm), rows.place(row, arm), figure))
                .collect(),
        })
        .collect();
    Chart {
        id: String::new(),
        title: String::new(),
        caption: String::new(),
        alternative: in_words(&series),
        x: Axis::new("", Scale::FromZero),
        y: rows.axis(of, loads),
        series,
        marks: Vec::new(),
        trials: of.numbers(if let [load] = loads {
            Some(*load)
        } else {
            None
        }),
    }
}

fn bar(of: &Source, (load, arm): (usize, usize), y: f64, figure: &Figure) -> Option<Point> {
    let value = (figure.of_arm)(&of.analysis.loads[load].arms[arm])? / figure.unit.size;
    let trials = of.trials(load, arm).filter_map(figure.of_trial);
    let ends = trials.fold((f64::MAX, f64::MIN), |(low, high), value| {
        let value = value / figure.unit.size;
        (low.min(value), high.max(value))
    });
    let words = format!(
        "{}{}: {} {} ({}-{})",
        of.analysis.arms[arm],
        of.place(load),
        significant(value),
        figure.unit.name,
        significant(ends.0),
        significant(ends.1)
    );
    Some(Point {
        interval: (ends.1 > ends.0).then_some(ends),
        ..Point::new(value, y, words)
    })
}
