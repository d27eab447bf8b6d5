//! What was measured beside what was predicted.

use std::num::NonZeroU32;

use iosched_sim::scheduler::SchedulerSpec;
use iosched_stats::fairness::jain;
use iosched_stats::histogram::Histogram;
use iosched_stats::interval::student_t;
use serde::{Deserialize, Serialize};

use super::accesses::{Accesses, Predicted};
use super::measure::Measured;
use super::{LEAST_AGREEMENT, Load};
use crate::load::simulated::job_result;
use crate::trial::JobResult;
use iosched_conform::Conformance;

/// What came out of everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveReport {
    /// The disk model.
    pub disk: String,
    /// Its queue depth.
    pub queue_depth: usize,
    /// Requests that the loop driver gave it at a time.
    pub driver_depth: u32,
    /// The way to the disk's server and back, which is part of the disk's time.
    pub path_ns: u64,
    /// How fast it was.
    pub speed: Speed,
    /// The kernel.
    pub kernel: String,
    /// Its ticks per second.
    pub hz: u32,
    /// How long each load ran.
    pub runtime_s: f64,
    /// Where chance came from.
    pub seed: u64,
    /// Load by load, scheduler by scheduler.
    pub results: Vec<Comparison>,
}

/// How fast the emulated disk was beside this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// All that it did took this many times as long as its model says, measured and predicted.
    pub slow_down: NonZeroU32,
    /// The model under the load that is the fastest on it, if it is not slowed down. Not asked for
    /// disks with an arm.
    pub disk: Option<Pace>,
    /// This machine with an emulated disk that answers at once: the limit of the simulated one, too.
    /// Not asked for disks with an arm.
    pub machine: Option<Pace>,
}

/// How fast requests come through.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// So many per second, of many in flight.
    pub iops: f64,
    /// How long one takes, on average: of the disk with as many as it takes, of the machine alone.
    pub latency_ns: f64,
}

impl LiveReport {
    /// True if the kernel decided as ours everywhere, as far as that can be told.
    pub fn agrees(&self) -> bool {
        let agrees = |result: &Comparison| {
            let agreement = result.followed.agreement;
            result.lost_events == 0 && agreement.is_some_and(|share| share >= LEAST_AGREEMENT)
        };
        self.results.iter().all(agrees)
    }
}

/// A load under a scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The scheduler with its tunables.
    pub scheduler: String,
    /// The load.
    pub load: String,
    /// Events that were recorded.
    pub events: u64,
    /// Events that the kernel had no room for.
    pub lost_events: u64,
    /// Decision by decision.
    pub followed: Conformance,
    /// By the kernel, and by fio.
    pub measured: Measurement,
    /// By the simulator.
    pub predicted: Measurement,
    /// Predicted against measured, as a share of it.
    pub error: Figures,
    /// Process by process.
    pub processes: Vec<ProcessComparison>,
}

/// What a load got, measured or predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Half the width of the 95 % interval of the accesses per second: of parts of the measured
    /// run, of the simulated runs.
    pub iops_half_width: Option<f64>,
    /// Between which two latencies the 99th percentile lies, as far as so few accesses tell (95 %, order statistics); of
    /// the measured run alone. Accesses that wait for one another tell less than this says.
    #[serde(default)]
    pub latency_p99_interval_ns: Option<(Option<u64>, Option<u64>)>,
}

/// What is compared, or how far it is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Accesses per second of all processes.
    pub iops: f64,
    /// Bytes per second of all processes.
    pub bytes_per_s: f64,
    /// From submission to completion in the block layer; of reads only, where writes go through the
    /// page cache.
    pub latency_mean_ns: f64,
    /// Half take at most this.
    pub latency_p50_ns: f64,
    /// 99 of 100 take at most this.
    pub latency_p99_ns: f64,
    /// Jain's index of the processes' bytes per second; 1 with a single process.
    pub fairness: f64,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessComparison {
    /// Its job's name.
    pub name: String,
    /// What fio measured.
    pub measured_bytes_per_s: f64,
    /// What was predicted.
    pub predicted_bytes_per_s: f64,
    /// The latter against the former, as a share of it.
    pub error: f64,
}

impl Figures {
    fn new(jobs: &[JobResult], latencies: &Histogram) -> Figures {
        let flows = || jobs.iter().flat_map(JobResult::flows);
        let rates: Vec<f64> = jobs.iter().map(rate).collect();
        let percentile = |percent| latencies.percentile(percent).unwrap_or(0) as f64;
        Figures {
            iops: flows().map(|flow| flow.iops).sum(),
            bytes_per_s: rates.iter().sum(),
            latency_mean_ns: latencies.mean().unwrap_or(0.0),
            latency_p50_ns: percentile(50.0),
            latency_p99_ns: percentile(99.0),
            fairness: jain(&rates).unwrap_or(1.0),
        }
    }

    /// These against the measured ones, as shares of those.
    fn against(&self, measured: &Figures) -> Figures {
        let share = |pick: fn(&Figures) -> f64| relative(pick(self), pick(measured));
        Figures {
            iops: share(|figures| figures.iops),
            bytes_per_s: share(|figures| figures.bytes_per_s),
            latency_mean_ns: share(|figures| figures.latency_mean_ns),
            latency_p50_ns: share(|figures| figures.latency_p50_ns),
            latency_p99_ns: share(|figures| figures.latency_p99_ns),
            fairness: share(|figures| figures.fairness),
        }
    }
}

fn relative(predicted: f64, measured: f64) -> f64 {
    if measured == 0.0 {
        return if predicted == 0.0 { 0.0 } else { 1.0 };
    }
    predicted / measured - 1.0
}

fn rate(job: &JobResult) -> f64 {
    job.flows().iter().map(|flow| flow.bytes_per_s).sum()
}

impl Comparison {
    pub(super) fn new(
        (scheduler, load): (&SchedulerSpec, &Load),
        measured: &Measured,
        followed: Conformance,
        predicted: &[Predicted],
    ) -> Comparison {
        let seen = Accesses::of(&measured.lines, load.is_cached());
        let runs: Vec<Vec<JobResult>> = predicted
            .iter()
            .map(|run| run.outcome.processes.iter().map(job_result).collect())
            .collect();
        let jobs = mean_of(&runs);
        let latencies = predicted.iter().flat_map(|run| run.accesses.latencies());
        let mut simulated = Figures::new(&jobs, &histogram(latencies));
        simulated.fairness = mean_fairness(&runs);
        let measured_latencies = histogram(seen.latencies());
        let real = Figures::new(&measured.jobs, &measured_latencies);
        let rates: Vec<f64> = runs
            .iter()
            .map(|run| {
                run.iter()
                    .flat_map(JobResult::flows)
                    .map(|flow| flow.iops)
                    .sum()
            })
            .collect();
        let processes = measured.jobs.iter().zip(&jobs).zip(&load.jobs);
        Comparison {
            scheduler: scheduler.to_string(),
            load: load.name.clone(),
            events: measured.losses.read,
            lost_events: measured.losses.events,
            followed,
            measured: Measurement {
                figures: real,
                iops_half_width: half_width(&seen.rates()),
                latency_p99_interval_ns: Some(measured_latencies.percentile_interval(99.0, 0.95)),
            },
            predicted: Measurement {
                figures: simulated,
                iops_half_width: half_width(&rates),
                latency_p99_interval_ns: None,
            },
            error: simulated.against(&real),
            processes: processes
                .map(|((measured, predicted), job)| ProcessComparison {
                    name: job.name.clone(),
                    measured_bytes_per_s: rate(measured),
                    predicted_bytes_per_s: rate(predicted),
                    error: relative(rate(predicted), rate(measured)),
                })
                .collect(),
        }
    }
}

/// Job by job, the rates' means over runs; latencies are left out.
fn mean_of(runs: &[Vec<JobResult>]) -> Vec<JobResult> {
    let count = runs.len().max(1) as f64;
    let mut jobs = runs.first().cloned().unwrap_or_default();
    for (index, job) in jobs.iter_mut().enumerate() {
        let others = || runs.iter().filter_map(|run| run.get(index));
        let flows = |pick: fn(&JobResult) -> &Option<crate::trial::Flow>| {
            let flows = others().filter_map(move |job| pick(job).as_ref());
            flows.fold((0.0, 0.0), |(iops, bytes), flow| {
                (iops + flow.iops / count, bytes + flow.bytes_per_s / count)
            })
        };
        let (reads, writes) = (flows(|job| &job.read), flows(|job| &job.write));
        for (flow, (iops, bytes)) in [(&mut job.read, reads), (&mut job.write, writes)] {
            if let Some(flow) = flow {
                (flow.iops, flow.bytes_per_s) = (iops, bytes);
            }
        }
    }
    jobs
}

/// As fair as one run is: on average over runs all processes may get the same, and in none of them.
fn mean_fairness(runs: &[Vec<JobResult>]) -> f64 {
    let fairness = runs.iter().map(|run| {
        let rates: Vec<f64> = run.iter().map(rate).collect();
        jain(&rates).unwrap_or(1.0)
    });
    fairness.sum::<f64>() / runs.len().max(1) as f64
}

fn histogram(latencies: impl Iterator<Item = u64>) -> Histogram {
    Histogram::from_bins(latencies.map(|latency| (latency, 1)))
}

/// Half the width of the mean's 95 % interval.
fn half_width(values: &[f64]) -> Option<f64> {
    student_t(values, 0.95).map(|interval| interval.upper - interval.estimate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Flow;

    #[test]
    fn runs_that_favour_others_are_as_unfair_as_each_of_them() {
        let job = |bytes_per_s: f64| JobResult {
            name: "reader".into(),
            read: Some(Flow {
                ios: 1,
                bytes: 4096,
                bytes_per_s,
                iops: 1.0,
                latency_mean_ns: 1.0,
                latency_max_ns: 1,
                latency_bins: vec![(1, 1)],
            }),
            write: None,
            trim: None,
            transactions: None,
        };
        let runs = [[1.0, 3.0], [3.0, 1.0]].map(|rates| rates.map(job).to_vec());
        assert!((mean_fairness(&runs) - 0.8).abs() < 1e-9);
    }
}
