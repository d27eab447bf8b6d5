//! The ratio to the baseline with its interval: the chart that answers the question.

use iosched_stats::Interval;
use iosched_stats::race::Contest;

use super::Source;
use crate::analysis::Analysis;
use crate::record::Record;
use crate::report::chart::{Axis, Chart, Form, Mark, Point, Scale, Series, id_of, in_words};
use crate::report::words::{clipped, number, percent};

/// Points and intervals per load and arm around the line of the baseline, the margin shaded.
pub(super) fn chart(of: &Source) -> Chart {
    let Source { record, analysis } = of;
    let plan = &record.header.plan;
    let contests = contests(analysis);
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
            .filter_map(|(row, (_, contest))| {
                let ratio = to_baseline(contest, arm, analysis.baseline)?;
                Some(point(ratio, rows.place(row, arm), label, of.baseline()))
            })
            .collect(),
    });
    let series: Vec<Series> = series.collect();
    let y = match contests.len() {
        1 => Axis::names(analysis.arms.iter().map(String::as_str)),
        _ => Axis::names(contests.iter().map(|(name, _)| name.as_str())),
    };
    Chart {
        id: "ratio".into(),
        title: format!("Ratio to {}", of.baseline()),
        caption: format!(
            "Each arm against {} within the same rounds, with the interval that holds the truth \
             ({confidence}, all together, however often one looks). The band is the margin of {} \
             that does not matter. A point without an interval had too few rounds for one.",
            of.baseline(),
            percent(plan.rules.margin - 1.0)
        ),
        alternative: in_words(&series),
        x: Axis::new(direction(analysis), Scale::Log),
        y,
        series,
        marks: baseline_and_margin(plan.rules.margin),
        trials: of.numbers(None),
    }
}

/// Several records side by side: each arm that two of them share, against its own record's baseline.
pub fn compared(records: &[(String, &Record, &Analysis)]) -> Chart {
    let mut names: Vec<String> = Vec::new();
    for (_, _, analysis) in records {
        for (name, ..) in ratios(analysis) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let thickness = 0.8 / records.len() as f64;
    let middle = (records.len() - 1) as f64 / 2.0;
    let series = records
        .iter()
        .enumerate()
        .map(|(index, (title, _, analysis))| {
            let points = ratios(analysis).into_iter().filter_map(|(name, ratio)| {
                let row = names.iter().position(|other| *other == name)?;
                let y = (middle - index as f64) * thickness - row as f64;
                let baseline = &analysis.arms[analysis.baseline];
                Some(point(ratio, y, &format!("{title}, {name}"), baseline))
            });
            Series {
                name: title.clone(),
                slot: index,
                form: Form::Dots,
                points: points.collect(),
            }
        });
    let series: Vec<Series> = series.collect();
    let margin = records
        .iter()
        .map(|(_, record, _)| record.header.plan.rules.margin);
    Chart {
        id: "compared".into(),
        title: "Ratio to the baseline, record by record".into(),
        caption: "Each record against its own baseline, with its own interval. Intervals of two \
                  records that do not overlap differ surely; overlapping ones may differ all the same."
            .into(),
        alternative: in_words(&series),
        x: Axis::new("ratio to the record's baseline", Scale::Log),
        y: Axis::names(names.iter().map(String::as_str)),
        series,
        marks: baseline_and_margin(margin.fold(1.0, f64::max)),
        trials: Vec::new(),
    }
}

/// Every ratio of an analysis but the baseline's own, with its name: arm and load.
fn ratios(analysis: &Analysis) -> Vec<(String, Interval)> {
    let mut ratios = Vec::new();
    for (load, contest) in contests(analysis) {
        for (arm, label) in analysis.arms.iter().enumerate() {
            let ratio = to_baseline(contest, arm, analysis.baseline);
            if let Some(ratio) = ratio.filter(|_| arm != analysis.baseline) {
                ratios.push((format!("{label}, {load}"), ratio));
            }
        }
    }
    ratios
}

/// The contests by name: each load's, and the one over all loads.
fn contests(analysis: &Analysis) -> Vec<(String, &Contest)> {
    let name = |load: &crate::analysis::LoadAnalysis| {
        if load.objective.higher_is_better() {
            clipped(&load.name)
        } else {
            format!("{} (less is better)", clipped(&load.name))
        }
    };
    let loads = analysis.loads.iter();
    let mut contests: Vec<(String, &Contest)> =
        loads.map(|load| (name(load), &load.contest)).collect();
    contests.extend(
        analysis
            .overall
            .iter()
            .map(|all| ("over all loads".to_owned(), all)),
    );
    contests
}

fn to_baseline(contest: &Contest, arm: usize, baseline: usize) -> Option<Interval> {
    if arm == baseline {
        return Some(Interval::around(1.0, 0.0));
    }
    contest.arms[arm].to_baseline
}

fn point(ratio: Interval, y: f64, label: &str, baseline: &str) -> Point {
    // An interval from almost nothing to almost everything says that there is none yet.
    let is_known = ratio.is_bounded() && ratio.lower > 0.01 && ratio.upper < 100.0;
    let has_width = ratio.upper > ratio.lower;
    let interval = (is_known && has_width).then_some((ratio.lower, ratio.upper));
    let words = match interval {
        Some((lower, upper)) => format!(
            "{label}: {} × {baseline} ({}-{})",
            number(ratio.estimate),
            number(lower),
            number(upper)
        ),
        None if !has_width => format!("{label}: 1, the baseline"),
        None => format!(
            "{label}: {} × {baseline} (few rounds)",
            number(ratio.estimate)
        ),
    };
    Point {
        interval,
        ..Point::new(ratio.estimate, y, words)
    }
}

/// What is measured, and which way is good.
fn direction(analysis: &Analysis) -> String {
    match &analysis.loads[..] {
        [load] if load.objective.higher_is_better() => {
            format!("{}, ratio: right is better", load.objective.words())
        }
        [load] => format!("{}, ratio: left is better", load.objective.words()),
        loads if loads.iter().all(|load| load.objective.higher_is_better()) => {
            "ratio: right is better".into()
        }
        _ => "ratio".into(),
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
