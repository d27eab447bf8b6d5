//! Each arm's own numbers as bars: throughput, CPU time, the disk's waiting time, shares of workers.

use iosched_experiment::analysis::ArmSummary;
use iosched_experiment::trial::Trial;

use super::{Rows, Source, ratio::id};
use crate::chart::id_of;
use crate::chart::{Axis, Chart, Form, Point, Scale, Series, in_words};
use crate::units::{MEGABYTES, MICROSECONDS, Unit};
use crate::words::{clipped, significant};

/// More workers than this have no bar each.
const MOST_WORKERS: usize = 8;

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

/// What each worker of a load got; of many workers only how fair it was.
pub(super) fn fairness(of: &Source, load: usize) -> Chart {
    let arms = &of.analysis.loads[load].arms;
    let names: Vec<String> = arms
        .iter()
        .zip(&of.analysis.arms)
        .map(|(arm, label)| match arm.fairness {
            Some(index) => format!("{label} ({index:.2})"),
            None => label.clone(),
        })
        .collect();
    let has_shares = arms.iter().any(|arm| arm.fairness.is_some());
    let workers = arms.iter().map(|arm| arm.workers.len()).max().unwrap_or(0);
    let (series, title) = if has_shares && (2..=MOST_WORKERS).contains(&workers) {
        (shares(of, load, workers), "throughput, MB/s")
    } else {
        (index(of, load), "Jain's index")
    };
    Chart {
        id: id("fairness", of, load),
        title: format!("Shares of the workers{}", of.place(load)),
        caption: "In brackets Jain's index: 1 if all workers got the same, 1/n if one of n got everything."
            .into(),
        alternative: in_words(&series),
        x: Axis::new(title, Scale::FromZero),
        y: Axis::names(names.iter().map(String::as_str)),
        series,
        marks: Vec::new(),
        trials: of.numbers(Some(load)),
    }
}

fn shares(of: &Source, load: usize, workers: usize) -> Vec<Series> {
    let thickness = 0.8 / workers as f64;
    let middle = (workers - 1) as f64 / 2.0;
    let arms = &of.analysis.loads[load].arms;
    (0..workers)
        .map(|worker| {
            let points = arms.iter().enumerate().filter_map(|(arm, summary)| {
                let share = summary.workers.get(worker)?;
                let rate = share.bytes_per_s / MEGABYTES.size;
                let y = (middle - worker as f64) * thickness - arm as f64;
                let label = &of.analysis.arms[arm];
                let name = clipped(&share.name);
                let words = format!("{label}, {name}: {} MB/s", significant(rate));
                Some(Point::new(rate, y, words))
            });
            let names = arms.iter().filter_map(|arm| arm.workers.get(worker));
            let name = names.map(|share| share.name.clone()).next();
            Series {
                // Two sections of one name are two workers.
                name: format!("{}. {}", worker + 1, clipped(&name.unwrap_or_default())),
                slot: worker,
                form: Form::Bars(thickness),
                points: points.collect(),
            }
        })
        .collect()
}

fn index(of: &Source, load: usize) -> Vec<Series> {
    let arms = of.analysis.loads[load].arms.iter().enumerate();
    arms.filter_map(|(arm, summary)| {
        let index = summary.fairness?;
        let label = &of.analysis.arms[arm];
        Some(Series {
            name: label.clone(),
            slot: arm,
            form: Form::Bars(0.62),
            points: vec![Point::new(
                index,
                -(arm as f64),
                format!("{label}: {index:.3}"),
            )],
        })
    })
    .collect()
}
