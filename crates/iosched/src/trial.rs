//! A trial: one load under one arm, once; what it measured, or why it does not count.

use std::time::Duration;

use iosched_stats::{fairness, histogram::Histogram};
use serde::{Deserialize, Serialize};

use crate::measure::Measured;
use crate::switch::QueueState;

/// Where a trial stands in the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slot {
    /// Index of the load in the plan.
    pub load: usize,
    /// Counted from 0.
    pub round: u32,
    /// Index of the arm in the plan.
    pub arm: usize,
}

/// One load under one arm, once, as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which trial of the plan this is.
    #[serde(flatten)]
    pub slot: Slot,
    /// How many trials ran before it, void ones included.
    pub sequence: u32,
    /// Seconds since 1970 when the load started.
    pub started_unix_s: f64,
    /// How long each part of it took.
    pub phases: Phases,
    /// The state of each switched disk while the load ran, in the order of the plan.
    pub states: Vec<QueueState>,
    /// What the kernel counted while the load ran.
    pub measured: Measured,
    /// What the load's workers saw.
    pub jobs: Vec<JobResult>,
    /// The numbers that arms are compared by, worked out of the above.
    pub metrics: Metrics,
}

/// How long each part of a trial took, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Setting the arm and reading it back.
    pub switch_ns: u64,
    /// Writing back dirty pages, dropping caches, the load's own preparation.
    pub prepare_ns: u64,
    /// The load, from the start of its process to its end.
    pub load_ns: u64,
    /// Everything else: reading counters and states, saving the record.
    pub harness_ns: u64,
}

impl Phases {
    /// From the end of the trial before to the end of this one.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.switch_ns + self.prepare_ns + self.load_ns + self.harness_ns)
    }
}

/// A trial that does not count, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VoidTrial {
    /// Which trial of the plan this was.
    #[serde(flatten)]
    pub slot: Slot,
    /// How many trials ran before it, void ones included.
    pub sequence: u32,
    /// Why it does not count.
    pub reason: VoidReason,
}

/// Why a trial does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum VoidReason {
    /// Something else changed the queue while the load ran.
    StateChanged {
        /// Kernel name.
        device: String,
        /// File below `/sys/block/<device>/`.
        file: String,
        /// What we had set and read back.
        expected: String,
        /// What stood there after the load.
        found: String,
    },
    /// The load failed.
    LoadFailed {
        /// Its words.
        message: String,
    },
    /// The load ran, but a number that decides is missing, zero or not a number.
    BadMetric {
        /// The objective.
        objective: String,
        /// What was found.
        found: String,
    },
}

impl std::fmt::Display for VoidReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VoidReason::StateChanged {
                device,
                file,
                expected,
                found,
            } => write!(
                f,
                "another process changed {file} of {device} during the trial: {expected} was set, \
                 {found} was found"
            ),
            VoidReason::LoadFailed { message } => write!(f, "the load failed: {message}"),
            VoidReason::BadMetric { objective, found } => {
                write!(
                    f,
                    "the load's {objective} is {found}, which is no measurement"
                )
            }
        }
    }
}

/// What one worker of the load did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The section of the job file.
    pub name: String,
    /// Its reads, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Flow>,
    /// Its writes, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Flow>,
    /// Its discards, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim: Option<Flow>,
}

/// One direction of one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Completed I/Os.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Mean completion latency.
    pub latency_mean_ns: f64,
    /// Largest completion latency.
    pub latency_max_ns: u64,
    /// Completion latencies: (ns, count), ascending.
    pub latency_bins: Vec<(u64, u64)>,
}

/// The numbers that arms are compared by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Bytes per second of all workers, all directions.
    pub throughput_bytes_per_s: f64,
    /// I/Os per second of all workers, all directions.
    pub iops: f64,
    /// Bytes read per second.
    pub read_bytes_per_s: f64,
    /// Bytes written per second.
    pub write_bytes_per_s: f64,
    /// Latency over all I/Os.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<Latency>,
    /// Latency of reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Latency>,
    /// Latency of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Latency>,
    /// Jain's index of the workers' bytes per second; none with a single worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// CPU time of the whole machine per I/O that the workers completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_io: Option<f64>,
}

/// A latency distribution in five numbers, ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p999_ns: f64,
    /// Largest.
    pub max_ns: f64,
}

impl Metrics {
    /// Works the numbers out of what the workers and the kernel saw.
    pub fn of(jobs: &[JobResult], measured: &Measured) -> Metrics {
        let flows = |pick: fn(&JobResult) -> Vec<&Flow>| -> Vec<&Flow> {
            jobs.iter().flat_map(pick).collect()
        };
        let reads = flows(|job| job.read.iter().collect());
        let writes = flows(|job| job.write.iter().collect());
        let all = flows(JobResult::flows);
        let rate = |flows: &[&Flow]| {
            flows
                .iter()
                .map(|flow| flow.bytes_per_s)
                .fold(0.0, |sum, rate| sum + rate)
        };
        let ios: u64 = all.iter().map(|flow| flow.ios).sum();
        let shares: Vec<f64> = jobs.iter().map(|job| rate(&job.flows())).collect();
        Metrics {
            throughput_bytes_per_s: rate(&all),
            iops: all.iter().map(|flow| flow.iops).sum(),
            read_bytes_per_s: rate(&reads),
            write_bytes_per_s: rate(&writes),
            all: Latency::of(&all),
            read: Latency::of(&reads),
            write: Latency::of(&writes),
            fairness: (shares.len() > 1)
                .then(|| fairness::jain(&shares))
                .flatten(),
            cpu_ns_per_io: (ios > 0).then(|| measured.cpu_busy_ns as f64 / ios as f64),
        }
    }
}

impl JobResult {
    /// All directions that had I/O.
    pub fn flows(&self) -> Vec<&Flow> {
        [&self.read, &self.write, &self.trim]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// One histogram of all these flows: percentiles come from counts, never from other percentiles.
pub fn latency_histogram(flows: &[&Flow]) -> Histogram {
    Histogram::from_bins(
        flows
            .iter()
            .flat_map(|flow| flow.latency_bins.iter().copied()),
    )
}

impl Latency {
    fn of(flows: &[&Flow]) -> Option<Latency> {
        let ios: u64 = flows.iter().map(|flow| flow.ios).sum();
        if ios == 0 {
            return None;
        }
        let mean_ns = flows
            .iter()
            .map(|flow| flow.latency_mean_ns * flow.ios as f64)
            .sum::<f64>()
            / ios as f64;
        let histogram = latency_histogram(flows);
        let percentile = |percent: f64| histogram.percentile(percent).map(|ns| ns as f64);
        Some(Latency {
            mean_ns,
            p50_ns: percentile(50.0)?,
            p99_ns: percentile(99.0)?,
            p999_ns: percentile(99.9)?,
            max_ns: flows.iter().map(|flow| flow.latency_max_ns).max()? as f64,
        })
    }
}
