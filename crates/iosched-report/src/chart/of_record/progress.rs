//! Trial after trial: drift of the machine, trials that stand out, trials that do not count.

use super::{Source, ratio::id};
use crate::chart::{Axis, Chart, Form, Mark, Point, Scale, Series, thin};
use crate::units::Unit;
use crate::words::significant;

/// The objective of a load, trial after trial in the order they ran.
pub(super) fn chart(of: &Source, load: usize) -> Chart {
    let objective = of.analysis.loads[load].objective;
    let unit = Unit::of(objective);
    let series = of.analysis.arms.iter().enumerate().map(|(arm, label)| {
        let points = of.trials(load, arm).filter_map(|trial| {
            let value = objective.of(&trial.metrics)? / unit.size;
            let number = f64::from(trial.sequence + 1);
            let words = format!(
                "trial {number}, {label}, round {}: {} {}",
                trial.slot.round + 1,
                significant(value),
                unit.name
            );
            Some(Point::new(number, value, words))
        });
        Series {
            name: label.clone(),
            slot: arm,
            form: Form::Trail,
            points: thin::thin(points.collect()),
        }
    });
    let series: Vec<Series> = series.collect();
    Chart {
        id: id("trials", of, load),
        title: format!("Trial after trial{}", of.place(load)),
        caption:
            "In the order they ran. What moves all arms alike cancels, because arms are compared \
                  within rounds. A dashed line with a cross is a trial that did not count."
                .into(),
        alternative: alternative(of, load, &series, unit),
        x: Axis::new("number of the trial", Scale::Linear),
        y: Axis::new(unit.after(objective.words()), Scale::FromZero),
        series,
        marks: void_trials(of, load),
        trials: of.numbers(Some(load)),
    }
}

/// A mark for each trial that did not count; of very many, the first hundred.
fn void_trials(of: &Source, load: usize) -> Vec<Mark> {
    let voids = of
        .record
        .void_trials()
        .filter(|void| void.slot.load == load);
    voids
        .take(100)
        .map(|void| Mark::At {
            x: f64::from(void.sequence + 1),
            words: format!(
                "trial {}, {}, did not count: {}",
                void.sequence + 1,
                of.analysis.arms[void.slot.arm],
                void.reason
            ),
            is_alarm: true,
        })
        .collect()
}

fn alternative(of: &Source, load: usize, series: &[Series], unit: Unit) -> String {
    let arms = series
        .iter()
        .filter(|series| !series.points.is_empty())
        .map(|series| {
            let values = || series.points.iter().map(|point| point.y);
            format!(
                "{}: {} trials between {} and {} {}",
                series.name,
                of.trials(load, series.slot).count(),
                significant(values().fold(f64::MAX, f64::min)),
                significant(values().fold(f64::MIN, f64::max)),
                unit.name
            )
        });
    let marks = void_trials(of, load);
    let voids = marks.iter().filter_map(|mark| match mark {
        Mark::At { words, .. } => Some(words.clone()),
        Mark::Between { .. } => None,
    });
    arms.chain(voids).collect::<Vec<_>>().join("; ")
}
