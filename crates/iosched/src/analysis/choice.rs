//! Which arm to use, and what comes with it.

use iosched_stats::race::{Contest, Place, Verdict};
use iosched_stats::{Interval, sequence};
use serde::Serialize;

use super::LoadAnalysis;
use crate::objective::Objective;
use crate::plan::Plan;
use crate::record::Record;
use crate::schedule;

/// A surely different metric that does not decide.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideEffect {
    /// Index of the load.
    pub load: usize,
    /// The metric.
    pub objective: Objective,
    /// The choice's / the baseline's, valid at any time.
    pub ratio: Interval,
}

/// The smallest relative standard deviation of a difference that is believed, as in the race.
const RESOLUTION: f64 = 0.001;

/// The arm to use, where the verdict allows to name one: the winner; among equals the baseline,
/// otherwise the one of least cost ([`costs`]). What is undecided has none, unless the baseline
/// itself has lost: then any of those that remain is better than to stay.
pub(super) fn choose(contest: &Contest, baseline: usize, costs: &[Option<f64>]) -> Option<usize> {
    match contest.verdict {
        Verdict::Winner { .. } | Verdict::Equal { .. } => contest.choice(baseline, costs),
        Verdict::Undecided { .. } if has_lost(contest, baseline) => contest.choice(baseline, costs),
        _ => None,
    }
}

fn has_lost(contest: &Contest, arm: usize) -> bool {
    matches!(contest.arms[arm].place, Place::Worse { .. })
}

/// What breaks a tie, per arm: CPU time per I/O, summed over loads; none where one load has none. Of
/// those that are left, only the ones with the fewest setbacks have a cost, where these differ.
pub(super) fn costs(
    plan: &Plan,
    record: &Record,
    loads: &[LoadAnalysis],
    contest: &Contest,
) -> Vec<Option<f64>> {
    let cpu = |arm: usize| loads.iter().map(|load| load.arms[arm].cpu_ns_per_io).sum();
    let left: Vec<usize> = contest.remaining().collect();
    let setbacks: Vec<usize> = (left.iter())
        .map(|&arm| setbacks(plan, record, &left, arm))
        .collect();
    let fewest = setbacks.iter().min();
    let is_behind = |arm: usize| {
        let place = left.iter().position(|&other| other == arm);
        place.is_some_and(|place| Some(&setbacks[place]) != fewest)
    };
    let differ = setbacks.iter().max() != fewest;
    (0..plan.arms.len())
        .map(|arm| match cpu(arm) {
            _ if is_behind(arm) => None,
            None if differ => Some(f64::INFINITY),
            cost => cost,
        })
        .collect()
}

/// In how many loads and metrics that do not decide an arm is surely worse than another that is left,
/// by more than the margin: throughput, and the 99th percentile of latencies.
fn setbacks(plan: &Plan, record: &Record, left: &[usize], arm: usize) -> usize {
    let watched = [Objective::Throughput, Objective::P99];
    let pairs = left.len() * left.len().saturating_sub(1);
    let questions = (plan.loads.len() * watched.len() * pairs).max(1) as f64;
    let level = (1.0 - plan.rules.confidence) / questions;
    let margin = plan.rules.margin.ln();
    let is_worse = |load: usize, objective: Objective, other: usize| {
        let logs = log_ratios(record, load, objective, arm, other);
        sequence::interval(&logs, level, RESOLUTION).is_some_and(|log_ratio| {
            if objective.higher_is_better() {
                log_ratio.upper < -margin
            } else {
                log_ratio.lower > margin
            }
        })
    };
    (0..plan.loads.len())
        .filter(|&load| !plan.loads[load].is_control)
        .flat_map(|load| watched.map(|objective| (load, objective)))
        .filter(|&(load, objective)| plan.loads[load].objective != objective)
        .filter(|&(load, objective)| {
            let mut others = left.iter().filter(|&&other| other != arm);
            others.any(|&other| is_worse(load, objective, other))
        })
        .count()
}

/// What the choice changes besides the objective, as far as it is sure.
pub(super) fn side_effects(plan: &Plan, record: &Record, choice: usize) -> Vec<SideEffect> {
    let watched = [Objective::Throughput, Objective::P99, Objective::Cpu];
    // Which arm is asked about was chosen by the same data: all of them might have been.
    let questions = (plan.loads.len() * watched.len() * (plan.arms.len() - 1)) as f64;
    let level = (1.0 - plan.rules.confidence) / questions;
    let margin = plan.rules.margin.ln();
    (0..plan.loads.len())
        .flat_map(|load| watched.map(|objective| (load, objective)))
        .filter(|&(load, objective)| plan.loads[load].objective != objective)
        .filter_map(|(load, objective)| {
            let logs = log_ratios(record, load, objective, choice, plan.baseline);
            let log_ratio = sequence::interval(&logs, level, RESOLUTION)?;
            let is_sure = log_ratio.lower > margin || log_ratio.upper < -margin;
            is_sure.then(|| SideEffect {
                load,
                objective,
                ratio: log_ratio.exp(),
            })
        })
        .collect()
}

/// Log-ratios of a metric between two arms within each round that both ran.
pub(super) fn log_ratios(
    record: &Record,
    load: usize,
    objective: Objective,
    a: usize,
    b: usize,
) -> Vec<f64> {
    let rounds = record.trials().map(|trial| trial.slot.round + 1).max();
    let table = schedule::table(record, load, rounds.unwrap_or(0), objective);
    let logs = table
        .iter()
        .filter_map(|row| Some((row[a]? / row[b]?).ln()));
    logs.filter(|log| log.is_finite()).collect()
}
