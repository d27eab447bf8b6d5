//! Which arm to use, and what comes with it.

use iosched_stats::race::{Contest, Scale, Verdict};
use iosched_stats::{Interval, sequence};
use serde::Serialize;

use super::LoadAnalysis;
use crate::objective::Objective;
use crate::plan::Plan;
use crate::record::Record;
use crate::schedule;

/// A metric that does not decide and that differs: surely, or for the worse as far as is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideEffect {
    /// Index of the load.
    pub load: usize,
    /// The metric.
    pub objective: Objective,
    /// Index of the arm that the choice is held against: the baseline, or, if that has won, the next.
    pub than: usize,
    /// The choice's / the other's, valid at any time.
    pub ratio: Interval,
    /// What `ratio` is.
    #[serde(skip_serializing_if = "Scale::is_ratio")]
    pub scale: Scale,
    /// True if it surely differs by more than the margin; otherwise the estimate does.
    pub is_proven: bool,
}

impl SideEffect {
    /// True if the choice is better than the other one here.
    pub fn is_good(&self) -> bool {
        (self.ratio.estimate > self.scale.equal()) == self.objective.higher_is_better()
    }
}

/// What to do, and what it can cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Action {
    /// Index of the arm to use or to keep.
    pub arm: usize,
    /// The most by which another arm may be better, with the plan's confidence: a factor, or a difference where the contest has
    /// these; none while it is unknown.
    pub costs_at_most: Option<f64>,
}

/// The choice, where there is one. Where several arms may be the best, after two rounds: what is active or the baseline is kept;
/// if the baseline has lost, the arm that is proven better than it and can cost least.
pub(super) fn action(plan: &Plan, contest: &Contest, choice: Option<usize>) -> Option<Action> {
    let of = |arm: usize| Action {
        arm,
        costs_at_most: contest.most_cost(arm),
    };
    if let Some(choice) = choice {
        return Some(of(choice));
    }
    let is_open = matches!(contest.verdict, Verdict::Open | Verdict::Undecided { .. });
    if !is_open || contest.rounds < 2 {
        return None;
    }
    let remains = |arm: usize| contest.remaining().any(|other| other == arm);
    let least = |a: &Action, b: &Action| {
        let cost = |action: &Action| action.costs_at_most.unwrap_or(f64::INFINITY);
        cost(a).total_cmp(&cost(b))
    };
    let proven = (contest.remaining())
        .filter(|&arm| !remains(plan.baseline) && contest.is_surely_better(arm, plan.baseline))
        .map(of)
        .min_by(least);
    let kept = plan.active.filter(|&active| remains(active));
    proven.or_else(|| Some(of(kept.unwrap_or(plan.baseline))))
}

/// The smallest relative standard deviation of a difference that is believed, as in the race.
pub const RESOLUTION: f64 = 0.001;

/// The arm to use, where the race allows to name one ([`Contest::choice`]); what breaks a tie is
/// [`costs`].
pub(super) fn choose(
    plan: &Plan,
    record: &Record,
    loads: &[LoadAnalysis],
    contest: &Contest,
) -> Option<usize> {
    contest.choice(plan.baseline, &costs(plan, record, loads, contest))
}

/// What breaks a tie, per arm: CPU time per I/O, summed over loads; none where one load has none. Of
/// those that may be used, only the ones with the fewest setbacks have a cost, where these differ.
fn costs(
    plan: &Plan,
    record: &Record,
    loads: &[LoadAnalysis],
    contest: &Contest,
) -> Vec<Option<f64>> {
    let cpu = |arm: usize| loads.iter().map(|load| load.arms[arm].cpu_ns_per_io).sum();
    let eligible = contest.eligible(plan.baseline);
    let setbacks: Vec<usize> = (eligible.iter())
        .map(|&arm| setbacks(plan, record, &eligible, arm))
        .collect();
    let fewest = setbacks.iter().min();
    let is_behind = |arm: usize| {
        let place = eligible.iter().position(|&other| other == arm);
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

/// In how many loads and metrics that do not decide an arm is surely worse than another that may be used:
/// throughput, and the 99th percentile of latencies.
fn setbacks(plan: &Plan, record: &Record, eligible: &[usize], arm: usize) -> usize {
    let watched = [Objective::Throughput, Objective::P99];
    let pairs = eligible.len() * eligible.len().saturating_sub(1);
    let questions = plan.loads.len() * watched.len() * pairs;
    let is_worse = |load: usize, objective: Objective, other: usize| {
        let log_ratio = log_ratio(plan, record, load, objective, (arm, other), questions);
        let sure = log_ratio.filter(|&log_ratio| is_sure(plan, log_ratio));
        sure.is_some_and(|log_ratio| (log_ratio.lower < 0.0) == objective.higher_is_better())
    };
    undecisive(plan, &watched)
        .filter(|&(load, _)| !plan.loads[load].is_control)
        .filter(|&(load, objective)| {
            let mut others = eligible.iter().filter(|&&other| other != arm);
            others.any(|&other| is_worse(load, objective, other))
        })
        .count()
}

/// Whom the choice is held against: the baseline, or, if that has won, the one that comes nearest to it. Nobody where the
/// baseline stays among equals.
pub(super) fn held_against(contest: &Contest, choice: usize, baseline: usize) -> Option<usize> {
    if choice != baseline {
        return Some(baseline);
    }
    let has_won = contest.verdict == Verdict::Winner { arm: choice };
    let others = (0..contest.arms.len()).filter(|&other| has_won && other != choice);
    contest.nearest(choice, others)
}

/// What the choice changes besides the objective by more than the margin: what is sure, and what would
/// be a drawback if it is what it looks like. Few rounds must not hide a price.
pub(super) fn side_effects(
    plan: &Plan,
    record: &Record,
    choice: usize,
    than: usize,
) -> Vec<SideEffect> {
    let watched = [Objective::Throughput, Objective::P99, Objective::Cpu];
    // Which arms are asked about was chosen by the same data: all of them might have been.
    let questions = plan.loads.len() * watched.len() * (plan.arms.len() - 1);
    let effects = undecisive(plan, &watched).filter_map(|(load, objective)| {
        let log_ratio = log_ratio(plan, record, load, objective, (choice, than), questions)?;
        let effect = SideEffect {
            load,
            objective,
            than,
            ratio: log_ratio.exp(),
            scale: Scale::Ratio,
            is_proven: is_sure(plan, log_ratio),
        };
        let is_off = log_ratio.estimate.abs() > plan.rules.margin.ln();
        let looks_worse = is_off && !effect.is_good() && !plan.loads[load].is_control;
        (effect.is_proven || looks_worse).then_some(effect)
    });
    effects.collect()
}

/// What the choice over several loads is surely worse in, of what decides one of them: by the interval of that load's own contest.
pub(super) fn losses<'a>(
    plan: &'a Plan,
    loads: &'a [LoadAnalysis],
    choice: usize,
    than: usize,
) -> impl Iterator<Item = SideEffect> + 'a {
    let deciding = plan.loads.iter().filter(|load| !load.is_control);
    let several = deciding.count() > 1;
    let loads = plan.loads.iter().zip(loads).enumerate();
    loads.filter_map(move |(load, (planned, analysis))| {
        let ratio = analysis.contest.ratio(choice, than)?;
        let effect = SideEffect {
            load,
            objective: planned.objective,
            than,
            ratio,
            scale: analysis.contest.scale,
            is_proven: analysis.contest.is_surely_better(than, choice),
        };
        let is_told = several && !planned.is_control && effect.is_proven && !effect.is_good();
        is_told.then_some(effect)
    })
}

/// Each load with those of these metrics that do not decide it.
fn undecisive(plan: &Plan, watched: &[Objective]) -> impl Iterator<Item = (usize, Objective)> {
    let loads = plan.loads.iter().enumerate();
    loads.flat_map(|(load, planned)| {
        let others = watched.iter().filter(|&&it| it != planned.objective);
        others.map(move |&objective| (load, objective))
    })
}

/// The logarithm of a metric's ratio between two arms (the first / the second), one of so many
/// questions that are asked of the record; none before two rounds that both ran.
fn log_ratio(
    plan: &Plan,
    record: &Record,
    load: usize,
    objective: Objective,
    (a, b): (usize, usize),
    questions: usize,
) -> Option<Interval> {
    let level = (1.0 - plan.rules.confidence) / questions as f64;
    let logs = log_ratios(record, load, objective, a, b);
    sequence::interval(&logs, level, RESOLUTION)
}

/// True if the ratio is surely off by more than the margin, on whichever side.
fn is_sure(plan: &Plan, log_ratio: Interval) -> bool {
    let margin = plan.rules.margin.ln();
    log_ratio.lower > margin || log_ratio.upper < -margin
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
