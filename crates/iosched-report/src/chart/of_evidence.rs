//! Forest plots of evidence: what each machine found, their mean, and what the next one may expect.

use iosched_evidence::pool::Finding;
use iosched_stats::Interval;
use iosched_stats::meta::Study;

use super::{Axis, Chart, Form, Mark, Point, Scale, Series, id_of, in_words};
use crate::evidence::{drive_words, question_words, ratio};

/// With more machines than these, the mean and the next machine alone are drawn.
const MOST_MACHINES: usize = 30;

/// The middle 95 % of a normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The plot of what is known of a question; none if nothing is. `arms` are those of the page: each has its colour in all
/// plots.
pub(crate) fn forest(finding: &Finding, arms: &[&str]) -> Option<Chart> {
    let known: Vec<_> = finding
        .arms
        .iter()
        .filter_map(|arm| Some((arm, arm.ratio?, arm.next_machine?)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let mut machines: Vec<&str> = known
        .iter()
        .flat_map(|(arm, ..)| arm.each.iter().map(|(machine, _)| &**machine))
        .collect();
    machines.sort_unstable();
    machines.dedup();
    if machines.len() > MOST_MACHINES {
        machines.clear();
    }
    // They have no names, and a number is enough to find one in all arms.
    let names = (1..=machines.len()).map(|number| format!("machine {number}"));
    let names: Vec<String> = names
        .chain(["mean".into(), "next machine".into()])
        .collect();
    let step = 0.8 / known.len() as f64;
    let middle = (known.len() - 1) as f64 / 2.0;
    let series = known.iter().enumerate().map(|(index, (arm, mean, next))| {
        let place = |row: usize| (middle - index as f64) * step - row as f64;
        let point = |row: usize, interval: &Interval| Point {
            interval: Some((interval.lower, interval.upper)),
            ..Point::new(
                interval.estimate,
                place(row),
                format!("{}, {}: {}", arm.arm, names[row], ratio(interval)),
            )
        };
        let found = arm.each.iter().filter_map(|(machine, study)| {
            let row = machines.iter().position(|name| **name == **machine)?;
            Some(point(row, &of_machine(study)))
        });
        let mut points: Vec<Point> = found.collect();
        points.push(point(machines.len(), mean));
        points.push(point(machines.len() + 1, next));
        Series {
            name: arm.arm.to_string(),
            slot: arms.iter().position(|name| **name == *arm.arm).unwrap_or(0),
            form: Form::Dots,
            points,
        }
    });
    let series: Vec<Series> = series.collect();
    let question = &finding.question;
    Some(Chart {
        id: id_of(&[
            "forest",
            question.level.name(),
            &question.drive,
            &question.load_class,
            &question.objective,
            &question.kernel,
        ]),
        title: format!("{}: {}", drive_words(finding), question_words(finding)),
        caption: "Each machine with the interval of its own measurement, the mean with its interval, and the interval \
                  for a machine that was not measured: each 95 %. An arrow: the interval goes on beyond the chart."
            .into(),
        alternative: in_words(&series),
        x: Axis::new(
            format!("ratio to {} (right is better)", finding.reference),
            Scale::Log,
        ),
        y: Axis::names(names.iter().map(String::as_str)),
        series,
        marks: vec![Mark::At {
            x: 1.0,
            words: format!("as good as {}", finding.reference),
            is_alarm: false,
        }],
        trials: Vec::new(),
    })
}

/// What one machine found, as a ratio.
fn of_machine(study: &Study) -> Interval {
    Interval::around(study.effect, NORMAL * study.variance.sqrt()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_evidence::fixture::{Fleet, Size};
    use iosched_evidence::pool::{Groups, Level};

    fn findings(machines: usize) -> Vec<Finding> {
        let size = Size {
            machines,
            models: 1,
            loads: 1,
        };
        let rows = Fleet::new(3, size).rows;
        Groups::of(&rows, |question| question.level == Level::Model).findings()
    }

    #[test]
    fn each_machine_has_a_row_then_the_mean_and_the_next_one() {
        let all = findings(40);
        let known = all.iter().find(|finding| finding.is_known()).unwrap();
        let chart = forest(known, &["bfq", "kyber"]).unwrap();
        let Scale::Named(rows) = &chart.y.scale else {
            panic!("rows have names")
        };
        assert_eq!(rows.len(), known.machines + 2);
        assert_eq!(rows[known.machines].1, "mean");
        assert_eq!(chart.series.len(), 3);
        for series in &chart.series {
            assert!(series.points.iter().all(|point| {
                let (lower, upper) = point.interval.unwrap();
                lower < point.x && point.x < upper
            }));
        }
        let large = findings(200);
        let chart = forest(&large[0], &[]).unwrap();
        assert!(chart.series.iter().all(|series| series.points.len() == 2));
        assert!(findings(3).iter().all(|few| forest(few, &[]).is_none()));
    }
}
