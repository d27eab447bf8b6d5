//! The ratio to the baseline with its interval: the chart that answers the question.

use iosched_experiment::analysis::Analysis;
use iosched_experiment::objective::Objective;
use iosched_stats::Interval;
use iosched_stats::race::Contest;

use super::Source;
use crate::chart::{Axis, Chart, Form, Mark, Point, Scale, Series, id_of, in_words};
use crate::words::{bound, clipped, number, percent};

/// Points and intervals per load and arm around the line of the baseline, the margin shaded. Ratios of
/// which less is better have a chart of their own: on one axis, right would mean both.
pub(super) fn charts(of: &Source) -> Vec<Chart> {
    let (more, less): (Vec<ContestRow>, Vec<ContestRow>) = rows(of.analysis)
        .into_iter()
        .partition(|row| row.higher_is_better);
    let are_both = !more.is_empty() && !less.is_empty();
    let id_of_less = if are_both { "ratio-less" } else { "ratio" };
    [("ratio", more), (id_of_less, less)]
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(id, rows)| chart(of, id, &rows, are_both))
        .collect()
}

fn chart(of: &Source, id: &str, contests: &[ContestRow], is_one_of_two: bool) -> Chart {
    let Source { record, analysis } = of;
    let plan = &record.header.plan;
    let confidence = percent(plan.rules.confidence);
    let rows = super::Rows {
        arms: analysis.arms.len(),
        loads: contests.len(),
    };
    let series = analysis.arms.iter().enumerate().map(|(arm, label)| Series {
        name: label.clone(),
        slot: arm,
        form: Form::Dots,
        points: contests
            .iter()
            .enumerate()
            .filter_map(|(row, ContestRow { contest, .. })| {
                let ratio = to_baseline(contest, arm, analysis.baseline)?;
                Some(point(ratio, rows.place(row, arm), label, of.baseline()))
            })
            .collect(),
    });
    let series: Vec<Series> = series.collect();
    let y = match contests {
        [_] => Axis::names(analysis.arms.iter().map(String::as_str)),
        _ => Axis::names(contests.iter().map(|row| row.name.as_str())),
    };
    let place = match contests {
        [row] if is_one_of_two => format!(" in {}", row.name),
        _ => String::new(),
    };
    Chart {
        id: id.into(),
        title: format!("Ratio to {}{place}", of.baseline()),
        caption: format!(
            "Each arm against {} within the same rounds, with the interval that holds the truth \
             ({confidence}, all together, however often one looks). The band is the margin of {} \
             that does not matter. {ARROWS}",
            of.baseline(),
            percent(plan.rules.margin - 1.0)
        ),
        alternative: in_words(&series),
        x: Axis::new(direction(contests), Scale::Log),
        y,
        series,
        marks: baseline_and_margin(plan.rules.margin),
        trials: of.numbers(None),
    }
}

/// What the ends of intervals mean.
const ARROWS: &str = "An arrow: the interval goes on beyond the chart.";

/// A contest with its name and what its ratios mean.
struct ContestRow<'a> {
    name: String,
    /// What is compared; none over all loads.
    objective: Option<Objective>,
    higher_is_better: bool,
    contest: &'a Contest,
}

/// The contest of each load that has ratios, and the one over all loads, in which more is better whatever the loads say.
fn rows(analysis: &Analysis) -> Vec<ContestRow<'_>> {
    let loads = analysis.loads.iter().map(|load| ContestRow {
        name: clipped(&load.name),
        objective: Some(load.objective),
        higher_is_better: load.objective.higher_is_better(),
        contest: &load.contest,
    });
    let overall = analysis.overall.iter().map(|contest| ContestRow {
        name: "over all loads".to_owned(),
        objective: None,
        higher_is_better: true,
        contest,
    });
    let rows = loads.chain(overall);
    rows.filter(|row| row.contest.scale.is_ratio()).collect()
}

fn to_baseline(contest: &Contest, arm: usize, baseline: usize) -> Option<Interval> {
    if arm == baseline {
        return Some(Interval::around(1.0, 0.0));
    }
    contest.arms[arm].to_baseline
}

fn point(ratio: Interval, y: f64, label: &str, baseline: &str) -> Point {
    let interval = (ratio.upper > ratio.lower).then_some((ratio.lower, ratio.upper));
    let words = match interval {
        Some((lower, upper)) => format!(
            "{label}: {} × {baseline} ({}-{}{})",
            number(ratio.estimate),
            bound(lower),
            bound(upper),
            if ratio.is_bounded() {
                ""
            } else {
                ", needs more rounds"
            }
        ),
        None => format!("{label}: 1, the baseline"),
    };
    Point {
        interval,
        ..Point::new(ratio.estimate, y, words)
    }
}

/// What is measured, and which way is good; the rows agree on it.
fn direction(rows: &[ContestRow]) -> String {
    let what = match rows {
        [
            ContestRow {
                objective: Some(objective),
                ..
            },
        ] => format!("{}, ratio", objective.words()),
        _ => "ratio".to_owned(),
    };
    match rows {
        [row, ..] if !row.higher_is_better => format!("{what}: left is better"),
        _ => format!("{what}: right is better"),
    }
}

fn baseline_and_margin(margin: f64) -> Vec<Mark> {
    vec![
        Mark::Between {
            from: 1.0 / margin,
            to: margin,
            words: format!("margin of {}", percent(margin - 1.0)),
        },
        Mark::At {
            x: 1.0,
            words: "baseline".into(),
            is_alarm: false,
        },
    ]
}

/// The anchor of a load's chart.
pub(super) fn id(kind: &str, of: &Source, load: usize) -> String {
    match of.analysis.loads.len() {
        1 => kind.to_owned(),
        _ => format!(
            "{}-{}",
            id_of(&[kind, &of.analysis.loads[load].name]),
            load + 1
        ),
    }
}
