//! From the record to the answer: pure, from the record alone, the same whenever it is asked.

use std::collections::{BTreeMap, BTreeSet};

use iosched_stats::histogram::Histogram;
use iosched_stats::race::{Contest, Place, Standing, Verdict};
use iosched_stats::remarks::{self, Remark};
use iosched_stats::summary::{self, Summary};
use iosched_stats::{Interval, interval, sequence};
use serde::Serialize;

use crate::objective::Objective;
use crate::plan::Plan;
use crate::record::{Record, StopReason};
use crate::schedule;
use crate::split::{Parts, Split};
use crate::trial::{Flow, JobResult, Trial, latency_histogram};

/// The smallest relative standard deviation of a difference that is believed, as in the race.
const RESOLUTION: f64 = 0.001;

/// Everything worked out from a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// Labels of the arms.
    pub arms: Vec<String>,
    /// Index of the arm that ratios are taken to.
    pub baseline: usize,
    /// Rounds that are complete.
    pub rounds: u32,
    /// Trials that count.
    pub trials: usize,
    /// Trials that do not.
    pub void_trials: usize,
    /// Each load by itself.
    pub loads: Vec<LoadAnalysis>,
    /// Over all loads, where there are several.
    pub overall: Option<Contest>,
    /// Index of the arm to use, if there is one answer.
    pub choice: Option<usize>,
    /// Why the run ended; none while it has not.
    pub stop: Option<StopReason>,
    /// How the choice compares with the baseline in what does not decide, where that is surely
    /// different: the price of the choice, or what comes with it for free.
    pub side_effects: Vec<SideEffect>,
    /// Settings of the queue that are not the same under all arms, because a switch of scheduler
    /// changes them too.
    pub confounds: Vec<Confound>,
    /// Time in which no load ran and nothing was prepared, as a share of the whole.
    pub harness_share: f64,
}

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

/// A setting of the queue that came with the arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confound {
    /// The file below `queue/`.
    pub setting: String,
    /// Its value under each arm that was measured: (arm, value).
    pub values: Vec<(usize, String)>,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadAnalysis {
    /// Its name.
    pub name: String,
    /// What decides.
    pub objective: Objective,
    /// Ratios with their intervals, and the verdict.
    pub contest: Contest,
    /// Each arm's own numbers.
    pub arms: Vec<ArmSummary>,
    /// What looks odd in its trials; none of them was left out because of it.
    pub remarks: Vec<Remark>,
    /// What it says of the measurement, if it is there to show no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// Turns of a control that say nothing, because its data did not all come from memory.
    #[serde(skip_serializing_if = "is_none_left_out")]
    pub turns_left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_none_left_out(turns: &usize) -> bool {
    *turns == 0
}

/// What a load says that no scheduler can change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Control {
    /// It is proven that its arms differ by no more than this ratio.
    Equal {
        /// 1.04 for 4 %.
        within: f64,
    },
    /// Its arms differ: something else than the scheduler was measured.
    Differs,
    /// No difference is seen, and none is excluded up to this ratio.
    NotProven {
        /// Infinite after few rounds.
        within: f64,
    },
}

/// Ratio up to which a control's arms are taken for equal. It decides nothing: what is to be excluded
/// is that what was seen in the other loads came from elsewhere, and that was more.
const CONTROL_MARGIN: f64 = 1.1;

impl Control {
    /// A control has no say in when the run ends: so an interval of fixed size holds, which needs fewer
    /// rounds than those of the race.
    fn of(turns: &Turns, confidence: f64) -> Control {
        let Some(differences) = interval::differences(&turns.complete, confidence) else {
            return Control::NotProven {
                within: f64::INFINITY,
            };
        };
        let within = differences.within.exp();
        match differences.are_seen {
            _ if within <= CONTROL_MARGIN => Control::Equal { within },
            true => Control::Differs,
            false => Control::NotProven { within },
        }
    }
}

/// A control's trials, turn by turn.
#[derive(Debug, Default, PartialEq)]
struct Turns {
    /// The logarithms of what decides: one of each arm that ran at all, for the turns that had them all.
    complete: Vec<Vec<f64>>,
    /// Turns in which a trial was none of memory alone.
    left_out: usize,
}

impl Turns {
    fn of(plan: &Plan, record: &Record, load: usize) -> Turns {
        let objective = plan.loads[load].objective;
        let mut rounds: BTreeMap<u32, Vec<Vec<Option<f64>>>> = BTreeMap::new();
        let mut ran = vec![false; plan.arms.len()];
        for trial in record.trials().filter(|trial| trial.slot.load == load) {
            let of_round = rounds.entry(trial.slot.round);
            let of_round = of_round.or_insert_with(|| vec![Vec::new(); plan.arms.len()]);
            let value = objective.of(&trial.metrics);
            let value = value.filter(|_| is_from_memory(trial)).map(f64::ln);
            of_round[trial.slot.arm].push(value);
            ran[trial.slot.arm] = true;
        }
        let mut turns = Turns::default();
        for of_round in rounds.into_values() {
            let ran = of_round.into_iter().zip(&ran).filter(|(_, ran)| **ran);
            let arms: Vec<Vec<Option<f64>>> = ran.map(|(values, _)| values).collect();
            for turn in 0..arms.iter().map(Vec::len).min().unwrap_or(0) {
                match arms.iter().map(|values| values[turn]).collect() {
                    Some(values) => turns.complete.push(values),
                    None => turns.left_out += 1,
                }
            }
        }
        turns
    }
}

/// A control reads what is in memory; where somebody empties the page cache meanwhile, it is none.
fn is_from_memory(trial: &Trial) -> bool {
    let flows = trial.jobs.iter().filter_map(|job| job.read.as_ref());
    let read: u64 = flows.map(|flow| flow.bytes).sum();
    trial.measured.read_bytes <= read / 100
}

/// An arm's own numbers under one load, over all its trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ArmSummary {
    /// Trials that count.
    pub trials: usize,
    /// Why it left, if it could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// The objective, geometric mean over trials (what the ratios compare).
    pub objective: Option<f64>,
    /// The ratios to the baseline round by round, seen robustly; none for the baseline itself.
    pub robust: Option<Summary>,
    /// Bytes per second, mean.
    pub throughput_bytes_per_s: Option<f64>,
    /// I/Os per second, mean.
    pub iops: Option<f64>,
    /// Mean latency of the trials, ns.
    pub latency_mean_ns: Option<f64>,
    /// Latency percentiles over all I/Os of all its trials, ns.
    pub latency_p50_ns: Option<f64>,
    /// 99th percentile.
    pub latency_p99_ns: Option<f64>,
    /// 99.9th percentile.
    pub latency_p999_ns: Option<f64>,
    /// Largest.
    pub latency_max_ns: Option<f64>,
    /// 99th percentile of the reads alone.
    pub read_latency_p99_ns: Option<f64>,
    /// The disk's mean time per read, queue time and service time together (iostat's `r_await`), ns.
    pub read_await_ns: Option<f64>,
    /// The disk's mean time per write (iostat's `w_await`), ns.
    pub write_await_ns: Option<f64>,
    /// Where reads spent that time, as far as it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_split: Option<SplitSummary>,
    /// The same for writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_split: Option<SplitSummary>,
    /// Mean queue length (iostat's `aqu-sz`).
    pub average_queue_length: Option<f64>,
    /// CPU time of the whole machine per I/O, mean, ns.
    pub cpu_ns_per_io: Option<f64>,
    /// Jain's index over the load's workers, mean.
    pub fairness: Option<f64>,
    /// What the worker that got least got of all, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest_share: Option<f64>,
    /// What the worker that got most got of all, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_share: Option<f64>,
    /// Each worker, in the order of the job file.
    pub workers: Vec<Worker>,
    /// The same with those of one name together.
    pub kinds: Vec<Worker>,
    /// What else the load says, by name, mean.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
}

/// Where the requests of one kind spent their time, over all trials of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SplitSummary {
    /// Requests that were followed.
    pub requests: u64,
    /// Events that the kernel lost meanwhile.
    pub lost_events: u64,
    /// Mean time in the queue of the scheduler, ns.
    pub queue_mean_ns: f64,
    /// Its 99th percentile.
    pub queue_p99_ns: u64,
    /// Mean time at the disk, ns.
    pub service_mean_ns: f64,
    /// Its 99th percentile.
    pub service_p99_ns: u64,
}

impl SplitSummary {
    fn of(trials: &[&Trial], kind: fn(&Split) -> &Option<Parts>) -> Option<SplitSummary> {
        let splits = || trials.iter().filter_map(|t| t.measured.split.as_ref());
        let parts = Parts::merged(splits().filter_map(|split| kind(split).as_ref()))?;
        Some(SplitSummary {
            requests: parts.requests,
            lost_events: splits().map(|split| split.lost_events).sum(),
            queue_mean_ns: parts.queue_mean_ns()?,
            queue_p99_ns: parts.queue_p99_ns()?,
            service_mean_ns: parts.service_mean_ns()?,
            service_p99_ns: parts.service_p99_ns()?,
        })
    }
}

/// A worker's part of what an arm moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worker {
    /// The section of the job file.
    pub name: String,
    /// How many workers these are.
    pub count: usize,
    /// Bytes per second, mean over trials.
    pub bytes_per_s: f64,
    /// Its part of the bytes of all workers, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Latency percentiles over its I/Os of all trials, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p50_ns: Option<f64>,
    /// 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99_ns: Option<f64>,
}

impl Analysis {
    /// Works it out.
    pub fn of(record: &Record) -> Analysis {
        let plan = &record.header.plan;
        let (rounds, Standing { loads, overall, .. }) = schedule::standing_to_report(plan, record);
        let mut loads: Vec<LoadAnalysis> = loads
            .into_iter()
            .enumerate()
            .map(|(load, contest)| LoadAnalysis {
                name: plan.loads[load].name.clone(),
                objective: plan.loads[load].objective,
                arms: (0..plan.arms.len())
                    .map(|arm| summarise(plan, record, load, arm))
                    .collect(),
                remarks: remarks::remarks(&schedule::table(
                    record,
                    load,
                    rounds,
                    plan.loads[load].objective,
                )),
                control: None,
                turns_left_out: 0,
                contest,
            })
            .collect();
        for (load, found) in loads.iter_mut().enumerate() {
            if plan.loads[load].is_control {
                let turns = Turns::of(plan, record, load);
                found.control = Some(Control::of(&turns, plan.rules.confidence));
                found.turns_left_out = turns.left_out;
            }
        }
        let costs = cpu_costs(&loads, plan.arms.len());
        let decisive = overall.as_ref().unwrap_or(&loads[0].contest);
        let choice = choose(decisive, plan.baseline, &costs);
        Analysis {
            side_effects: choice
                .filter(|&choice| choice != plan.baseline)
                .map_or_else(Vec::new, |choice| side_effects(plan, record, choice)),
            arms: (0..plan.arms.len())
                .map(|arm| plan.arm_label(arm))
                .collect(),
            baseline: plan.baseline,
            rounds,
            trials: record.trials().count(),
            void_trials: record.void_trials().count(),
            choice,
            loads,
            overall,
            stop: record.stop_reason(),
            confounds: confounds(plan, record),
            harness_share: harness_share(record),
        }
    }

    /// The verdict that the run was about: over all loads, or that of the only one.
    pub fn decisive(&self) -> &Contest {
        self.overall.as_ref().unwrap_or(&self.loads[0].contest)
    }
}

/// The arm to use, where the verdict allows to name one: the winner; among equals the baseline,
/// otherwise the one of least CPU time per I/O. What is undecided has none, unless the baseline
/// itself has lost: then any of those that remain is better than to stay.
fn choose(contest: &Contest, baseline: usize, costs: &[Option<f64>]) -> Option<usize> {
    match contest.verdict {
        Verdict::Winner { .. } | Verdict::Equal { .. } => contest.choice(baseline, costs),
        Verdict::Undecided { .. } if has_lost(contest, baseline) => contest.choice(baseline, costs),
        _ => None,
    }
}

fn has_lost(contest: &Contest, arm: usize) -> bool {
    matches!(contest.arms[arm].place, Place::Worse { .. })
}

/// CPU time per I/O of each arm, summed over loads; none where one load has none.
fn cpu_costs(loads: &[LoadAnalysis], arms: usize) -> Vec<Option<f64>> {
    (0..arms)
        .map(|arm| loads.iter().map(|load| load.arms[arm].cpu_ns_per_io).sum())
        .collect()
}

/// The settings beside the tunables that differ between arms, by the first trial of each.
fn confounds(plan: &Plan, record: &Record) -> Vec<Confound> {
    let mut values: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for arm in 0..plan.arms.len() {
        let first = record.trials().find(|trial| trial.slot.arm == arm);
        let Some(state) = first.and_then(|trial| trial.states.first()) else {
            continue;
        };
        let depth = state
            .nr_requests
            .iter()
            .map(|value| ("nr_requests".to_owned(), value.clone()));
        let settings = state
            .settings
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        for (name, value) in depth.chain(settings) {
            let is_asked = plan.arms[arm]
                .tunables
                .iter()
                .any(|(asked, _)| *asked == name);
            if !is_asked {
                values.entry(name).or_default().push((arm, value));
            }
        }
    }
    values
        .into_iter()
        .filter(|(_, values)| values.iter().any(|(_, value)| *value != values[0].1))
        .map(|(setting, values)| Confound { setting, values })
        .collect()
}

/// What the choice changes besides the objective, as far as it is sure.
fn side_effects(plan: &Plan, record: &Record, choice: usize) -> Vec<SideEffect> {
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
fn log_ratios(record: &Record, load: usize, objective: Objective, a: usize, b: usize) -> Vec<f64> {
    let rounds = record.trials().map(|trial| trial.slot.round + 1).max();
    let table = schedule::table(record, load, rounds.unwrap_or(0), objective);
    let logs = table
        .iter()
        .filter_map(|row| Some((row[a]? / row[b]?).ln()));
    logs.filter(|log| log.is_finite()).collect()
}

fn summarise(plan: &Plan, record: &Record, load: usize, arm: usize) -> ArmSummary {
    let trials: Vec<&Trial> = record
        .trials()
        .filter(|trial| trial.slot.load == load && trial.slot.arm == arm)
        .collect();
    let objective = plan.loads[load].objective;
    let all = latencies(&trials, JobResult::flows);
    let reads = latencies(&trials, |job| job.read.iter().collect());
    let kinds = kinds(&trials);
    let each: Vec<Vec<usize>> = (0..kinds.iter().map(Vec::len).sum())
        .map(|one| vec![one])
        .collect();
    let kinds = workers(&trials, &kinds);
    let workers = workers(&trials, &each);
    let shares = || workers.iter().filter_map(|worker| worker.share);
    let is_compared = workers.len() > 1;
    ArmSummary {
        trials: trials.len(),
        left: record.arm_left(arm).map(str::to_owned),
        objective: geometric_mean(trials.iter().filter_map(|t| objective.of(&t.metrics))),
        robust: robust(plan, record, load, arm),
        throughput_bytes_per_s: mean(&trials, |t| Some(t.metrics.throughput_bytes_per_s)),
        iops: mean(&trials, |t| Some(t.metrics.iops)),
        latency_mean_ns: mean(&trials, |t| Some(t.metrics.all?.mean_ns)),
        latency_p50_ns: percentile(&all, 50.0),
        latency_p99_ns: percentile(&all, 99.0),
        latency_p999_ns: percentile(&all, 99.9),
        latency_max_ns: (trials.iter().filter_map(|t| Some(t.metrics.all?.max_ns)))
            .max_by(f64::total_cmp),
        read_latency_p99_ns: percentile(&reads, 99.0),
        read_await_ns: mean(&trials, |t| t.measured.read_await_ns),
        write_await_ns: mean(&trials, |t| t.measured.write_await_ns),
        read_split: SplitSummary::of(&trials, |split| &split.read),
        write_split: SplitSummary::of(&trials, |split| &split.write),
        average_queue_length: mean(&trials, |t| Some(t.measured.average_queue_length)),
        cpu_ns_per_io: mean(&trials, |t| t.metrics.cpu_ns_per_io),
        fairness: mean(&trials, |t| t.metrics.fairness),
        smallest_share: shares().min_by(f64::total_cmp).filter(|_| is_compared),
        largest_share: shares().max_by(f64::total_cmp).filter(|_| is_compared),
        numbers: numbers(&trials),
        workers,
        kinds,
    }
}

/// The ratios of an arm to the baseline, where outliers weigh little.
fn robust(plan: &Plan, record: &Record, load: usize, arm: usize) -> Option<Summary> {
    if arm == plan.baseline {
        return None;
    }
    let logs = log_ratios(record, load, plan.loads[load].objective, arm, plan.baseline);
    let ratios: Vec<f64> = logs.into_iter().map(f64::exp).collect();
    summary::summarize(&ratios, plan.rules.confidence, plan.seed)
}

/// The latencies of all trials.
fn latencies(trials: &[&Trial], flows: impl Fn(&JobResult) -> Vec<&Flow>) -> Histogram {
    let jobs = trials.iter().flat_map(|trial| &trial.jobs);
    latency_histogram(&jobs.flat_map(flows).collect::<Vec<_>>())
}

fn percentile(histogram: &Histogram, percent: f64) -> Option<f64> {
    histogram.percentile(percent).map(|ns| ns as f64)
}

fn mean(trials: &[&Trial], number: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
    let numbers: Vec<f64> = trials.iter().filter_map(|trial| number(trial)).collect();
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Workers, or groups of them, each by its places in the job file.
fn workers(trials: &[&Trial], groups: &[Vec<usize>]) -> Vec<Worker> {
    let rate = |group: &Vec<usize>| {
        let of = |trial: &Trial| Some(flows(trial, group).iter().map(|f| f.bytes_per_s).sum());
        mean(trials, of).unwrap_or(0.0)
    };
    let rates: Vec<f64> = groups.iter().map(rate).collect();
    let total: f64 = rates.iter().sum();
    let of_group = |(group, &bytes_per_s): (&Vec<usize>, &f64)| {
        let flows: Vec<&Flow> = trials
            .iter()
            .flat_map(|trial| flows(trial, group))
            .collect();
        let latencies = latency_histogram(&flows);
        Worker {
            name: trials[0].jobs[group[0]].name.clone(),
            count: group.len(),
            bytes_per_s,
            share: (total > 0.0).then(|| bytes_per_s / total),
            latency_p50_ns: percentile(&latencies, 50.0),
            latency_p99_ns: percentile(&latencies, 99.0),
        }
    };
    groups.iter().zip(&rates).map(of_group).collect()
}

fn flows<'a>(trial: &'a Trial, group: &[usize]) -> Vec<&'a Flow> {
    let jobs = group.iter().filter_map(|&worker| trial.jobs.get(worker));
    jobs.flat_map(JobResult::flows).collect()
}

/// The places of the workers of each name, numbers at its end left out, in the order of the job file.
fn kinds(trials: &[&Trial]) -> Vec<Vec<usize>> {
    let mut kinds: Vec<(&str, Vec<usize>)> = Vec::new();
    for (place, job) in trials
        .iter()
        .take(1)
        .flat_map(|trial| &trial.jobs)
        .enumerate()
    {
        let kind = job.name.trim_end_matches(|c: char| c.is_ascii_digit());
        match kinds.iter_mut().find(|(name, _)| *name == kind) {
            Some((_, places)) => places.push(place),
            None => kinds.push((kind, vec![place])),
        }
    }
    kinds.into_iter().map(|(_, places)| places).collect()
}

/// The mean of each number that the load says besides.
fn numbers(trials: &[&Trial]) -> BTreeMap<String, f64> {
    let names = trials.iter().flat_map(|trial| trial.metrics.numbers.keys());
    let names: BTreeSet<&String> = names.collect();
    names
        .into_iter()
        .filter_map(|name| {
            let mean = mean(trials, |trial| trial.metrics.numbers.get(name).copied())?;
            Some((name.clone(), mean))
        })
        .collect()
}

fn harness_share(record: &Record) -> f64 {
    let total: f64 = record
        .trials()
        .map(|trial| trial.phases.total().as_secs_f64())
        .sum();
    let harness: f64 = record
        .trials()
        .map(|trial| trial.phases.harness_ns as f64 / 1e9)
        .sum();
    if total > 0.0 { harness / total } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{plan, record, trial};
    use crate::plan::Rules;
    use crate::schedule::{Next, next};

    /// A whole run whose arms are this much faster than the first, with a little noise.
    fn run(factors: &[f64]) -> Analysis {
        let plan = plan(factors.len());
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.002;
            record
                .entries
                .push(trial(slot, 1e6 * factors[slot.arm] * (1.0 + noise)));
        }
        Analysis::of(&record)
    }

    #[test]
    fn the_best_arm_is_chosen_and_its_ratio_stated() {
        let analysis = run(&[1.0, 1.5, 0.7]);
        assert_eq!(analysis.choice, Some(1));
        let ratio = analysis.loads[0].contest.ratio(1, 0).unwrap();
        assert!(
            ratio.lower < 1.5 && ratio.upper > 1.5 && ratio.lower > 1.4,
            "{ratio:?}"
        );
    }

    #[test]
    fn a_baseline_that_has_lost_is_not_kept_because_the_others_are_not_told_apart() {
        let plan = Plan {
            rules: Rules {
                max_rounds: 4,
                ..Rules::default()
            },
            ..plan(3)
        };
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = [0.0, 0.06, 0.02, 0.05, 0.01][(slot.round as usize + slot.arm * 2) % 5];
            let factor = [1.0, 2.0, 2.02][slot.arm];
            record
                .entries
                .push(trial(slot, 1e6 * factor * (1.0 + noise)));
        }
        let analysis = Analysis::of(&record);
        assert!(matches!(
            analysis.decisive().verdict,
            Verdict::Undecided { .. }
        ));
        assert!(
            matches!(analysis.choice, Some(1 | 2)),
            "{:?}",
            analysis.choice
        );
    }

    #[test]
    fn among_equals_the_baseline_stays() {
        let analysis = run(&[1.0, 1.0005, 0.5]);
        assert!(matches!(analysis.decisive().verdict, Verdict::Equal { .. }));
        assert_eq!(analysis.choice, Some(0));
    }

    #[test]
    fn a_turn_of_a_control_that_read_the_disk_is_left_out() {
        let mut plan = plan(2);
        plan.loads[0].is_control = true;
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.001;
            let is_emptied = slot.round == 1 && slot.arm == 0;
            let factor = if is_emptied { 0.01 } else { 1.0 };
            let mut entry = trial(slot, 1e6 * factor * (1.0 + noise));
            if let crate::record::Entry::Trial(trial) = &mut entry {
                trial.measured.read_bytes = if is_emptied { 1 << 40 } else { 0 };
            }
            record.entries.push(entry);
        }
        let found = &Analysis::of(&record).loads[0];
        assert!(
            matches!(found.control, Some(Control::Equal { .. })),
            "{found:?}"
        );
        assert_eq!(found.turns_left_out, 1);
    }

    #[test]
    fn percentiles_come_from_the_counts_of_all_trials() {
        let analysis = run(&[1.0, 2.0]);
        let arm = &analysis.loads[0].arms[0];
        assert!(arm.latency_p50_ns.unwrap() <= 1e6 * 1.01);
        assert!(arm.latency_p999_ns.unwrap() > 1.5e6);
    }
}
