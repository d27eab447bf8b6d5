//! An arm's own numbers.

use std::collections::{BTreeMap, BTreeSet};

use iosched_sim::units::SECTOR_BYTES;
use iosched_stats::histogram::Histogram;
use iosched_stats::race::Scale;
use iosched_stats::summary::Summary;
use serde::Serialize;

use super::choice::log_ratios;
use super::is_zero;
use crate::load::simulated;
use crate::measure::Measured;
use crate::metrics::count;
use crate::plan::{Plan, Target};
use crate::record::{Entry, Record};
use crate::split::{Order, Parts, Split};
use crate::trial::{Flow, JobResult, Trial, latency_histogram};

/// An arm's own numbers under one load, over all its trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ArmSummary {
    /// Trials that count.
    pub trials: usize,
    /// Trials that failed: the load crashed, took too long or gave no number.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_trials: usize,
    /// Why it left, if it could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// The objective, geometric mean over trials (what the ratios compare); none where arms are compared by differences.
    pub objective: Option<f64>,
    /// The objective, arithmetic mean over trials: as the numbers beside it are, of which some add up to it.
    pub objective_mean: Option<f64>,
    /// The ratios to the baseline round by round, seen robustly; none for the baseline itself.
    pub robust: Option<Summary>,
    /// Bytes per second, mean.
    pub throughput_bytes_per_s: Option<f64>,
    /// I/Os per second, mean.
    pub iops: Option<f64>,
    /// Mean latency over all I/Os of all its trials, ns.
    pub latency_mean_ns: Option<f64>,
    /// The same of the reads alone.
    pub read_latency_mean_ns: Option<f64>,
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
    /// The disk's mean time per read of all its trials, queue time and service time together (iostat's `r_await`), ns.
    pub read_await_ns: Option<f64>,
    /// The disk's mean time per write (iostat's `w_await`), ns.
    pub write_await_ns: Option<f64>,
    /// Where reads spent that time, as far as it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_split: Option<SplitSummary>,
    /// The same for writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_split: Option<SplitSummary>,
    /// The load itself does not read: what the disk read was for others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reads_are_of_others: bool,
    /// The load itself does not write: what the disk wrote was for others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub writes_are_of_others: bool,
    /// `nr_requests` of its disks: whoever finds none free waits before the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nr_requests: Vec<String>,
    /// How requests followed one another to the disk, where all of them were followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderSummary>,
    /// Part of the requests that were merged into others, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_share: Option<f64>,
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
    /// Mean time that the program waited besides the two below: for a free request or tag before the
    /// queue, and until it ran again, ns. Known where an access is a request.
    pub before_mean_ns: Option<f64>,
    /// Mean time in the queue of the scheduler, ns.
    pub queue_mean_ns: f64,
    /// Its 99th percentile.
    pub queue_p99_ns: u64,
    /// Mean time at the disk, ns.
    pub service_mean_ns: f64,
    /// Its 99th percentile.
    pub service_p99_ns: u64,
}

/// How the requests of an arm followed one another to the disk, over all its trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OrderSummary {
    /// Part of them that began where the one before ended, 0 to 1.
    pub sequential_share: f64,
    /// From the end of one to the beginning of the next, mean.
    pub way_mean_bytes: f64,
}

impl OrderSummary {
    fn of(trials: &[&Trial]) -> Option<OrderSummary> {
        let splits = trials.iter().filter_map(|t| t.measured.split.as_ref());
        let order = Order::merged(splits.filter_map(|split| split.order.as_ref()))?;
        let requests = order.requests as f64;
        (order.requests > 0).then(|| OrderSummary {
            sequential_share: order.sequential as f64 / requests,
            way_mean_bytes: order.distance_sectors as f64 * SECTOR_BYTES as f64 / requests,
        })
    }
}

/// Part of the requests that the kernel merged into others.
fn merged_share(trials: &[&Trial]) -> Option<f64> {
    let sum = |count: fn(&Measured) -> u64| -> f64 {
        trials.iter().map(|t| count(&t.measured) as f64).sum()
    };
    let merged = sum(|measured| measured.reads_merged) + sum(|measured| measured.writes_merged);
    let all = merged + sum(|measured| measured.reads) + sum(|measured| measured.writes);
    (all > 0.0).then(|| merged / all)
}

impl SplitSummary {
    /// Those of one trial: of its reads and of its writes.
    pub fn of_trial(trial: &Trial) -> [Option<SplitSummary>; 2] {
        [Direction::READ, Direction::WRITE].map(|direction| SplitSummary::of(&[trial], direction))
    }

    fn of(trials: &[&Trial], direction: Direction) -> Option<SplitSummary> {
        let splits = || trials.iter().filter_map(|t| t.measured.split.as_ref());
        let parts = Parts::merged(splits().filter_map(|split| (direction.parts)(split).as_ref()))?;
        let (queue_mean_ns, service_mean_ns) = (parts.queue_mean_ns()?, parts.service_mean_ns()?);
        let accesses = direction.mean_latency_of_requests_ns(trials);
        Some(SplitSummary {
            requests: parts.requests,
            lost_events: splits().map(|split| split.lost_events).sum(),
            before_mean_ns: accesses.map(|mean| (mean - queue_mean_ns - service_mean_ns).max(0.0)),
            queue_mean_ns,
            queue_p99_ns: parts.queue_p99_ns()?,
            service_mean_ns,
            service_p99_ns: parts.service_p99_ns()?,
        })
    }
}

/// Reads or writes: where a trial has what is known of them.
#[derive(Clone, Copy)]
struct Direction {
    parts: fn(&Split) -> &Option<Parts>,
    flow: fn(&JobResult) -> &Option<Flow>,
    requests: fn(&Measured) -> u64,
}

impl Direction {
    const READ: Direction = Direction {
        parts: |split| &split.read,
        flow: |job| &job.read,
        requests: |measured| measured.reads,
    };
    const WRITE: Direction = Direction {
        parts: |split| &split.write,
        flow: |job| &job.write,
        requests: |measured| measured.writes,
    };

    /// True if the load has none of them. Of loads that are no jobs of accesses it is not known.
    fn is_of_others(self, plan: &Plan, load: usize, trials: &[&Trial]) -> bool {
        let mut jobs = trials.iter().flat_map(|trial| &trial.jobs);
        let has_accesses = jobs.clone().any(|job| !job.flows().is_empty());
        plan.loads[load].spec.counts_each_access()
            && has_accesses
            && jobs.all(|job| (self.flow)(job).is_none())
    }

    /// The mean latency of the program's accesses, if each of them was a request: nothing merged or
    /// split, cached, or written by others. ns.
    fn mean_latency_of_requests_ns(self, trials: &[&Trial]) -> Option<f64> {
        let (mut accesses, mut time, mut requests) = (0, 0.0, 0);
        for trial in trials.iter().filter(|t| t.measured.split.is_some()) {
            requests += (self.requests)(&trial.measured);
            for flow in trial
                .jobs
                .iter()
                .filter_map(|job| (self.flow)(job).as_ref())
            {
                accesses += flow.ios;
                time += flow.latency_mean_ns * flow.ios as f64;
            }
        }
        let requests_each = requests as f64 / accesses as f64;
        (0.95..=1.05)
            .contains(&requests_each)
            .then(|| time / accesses as f64)
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

/// How many requests there can be at a time, of each disk; nothing where that is not known.
fn nr_requests(plan: &Plan, trials: &[&Trial], arm: usize) -> Vec<String> {
    if let Target::Simulated(disk) = &plan.target {
        let requests = simulated::nr_requests(&plan.arms[arm], disk);
        return requests.iter().map(ToString::to_string).collect();
    }
    let states = trials.first().map_or(&[][..], |trial| &trial.states);
    let requests = states.iter().map(|state| state.nr_requests.clone());
    requests.collect::<Option<_>>().unwrap_or_default()
}

pub(super) fn summarise(
    plan: &Plan,
    record: &Record,
    (load, scale): (usize, Scale),
    arm: usize,
) -> ArmSummary {
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
        failed_trials: record
            .that_count()
            .filter(|entry| match entry {
                Entry::Void(void) => {
                    (void.slot.load, void.slot.arm) == (load, arm) && void.reason.is_failure()
                }
                _ => false,
            })
            .count(),
        left: record.arm_left(arm).map(str::to_owned),
        objective: geometric_mean(trials.iter().filter_map(|t| objective.of(&t.metrics)))
            .filter(|_| scale.is_ratio()),
        objective_mean: mean(&trials, |t| objective.of(&t.metrics)),
        robust: robust(plan, record, load, arm),
        throughput_bytes_per_s: mean(&trials, |t| Some(t.metrics.throughput_bytes_per_s)),
        iops: mean(&trials, |t| Some(t.metrics.iops)),
        latency_mean_ns: mean_of_each(&trials, |t| {
            let flows: Vec<&Flow> = t.jobs.iter().flat_map(JobResult::flows).collect();
            Some((t.metrics.all?.mean_ns, count(&flows)))
        }),
        read_latency_mean_ns: mean_of_each(&trials, |t| {
            let flows: Vec<&Flow> = t.jobs.iter().filter_map(|job| job.read.as_ref()).collect();
            Some((t.metrics.read?.mean_ns, count(&flows)))
        }),
        latency_p50_ns: percentile(&all, 50.0),
        latency_p99_ns: percentile(&all, 99.0),
        latency_p999_ns: percentile(&all, 99.9),
        latency_max_ns: (trials.iter().filter_map(|t| Some(t.metrics.all?.max_ns)))
            .max_by(f64::total_cmp),
        read_latency_p99_ns: percentile(&reads, 99.0),
        read_await_ns: mean_of_each(&trials, |t| {
            Some((t.measured.read_await_ns?, t.measured.reads))
        }),
        write_await_ns: mean_of_each(&trials, |t| {
            Some((t.measured.write_await_ns?, t.measured.writes))
        }),
        read_split: SplitSummary::of(&trials, Direction::READ),
        write_split: SplitSummary::of(&trials, Direction::WRITE),
        reads_are_of_others: Direction::READ.is_of_others(plan, load, &trials),
        writes_are_of_others: Direction::WRITE.is_of_others(plan, load, &trials),
        nr_requests: nr_requests(plan, &trials, arm),
        order: OrderSummary::of(&trials),
        merged_share: merged_share(&trials),
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
    Summary::of(&ratios)
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

/// The mean over all that the trials counted, of each trial's own mean and how many that is of.
fn mean_of_each(trials: &[&Trial], number: impl Fn(&Trial) -> Option<(f64, u64)>) -> Option<f64> {
    let numbers = trials.iter().filter_map(|trial| number(trial));
    let (sum, count) = numbers.fold((0.0, 0.0), |(sum, all), (mean, count)| {
        (sum + mean * count as f64, all + count as f64)
    });
    (count > 0.0).then(|| sum / count)
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    (mean > 0.0 && mean.is_finite()).then_some(mean)
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
