//! What a load's workers saw, and the numbers that arms are compared by.

use std::collections::BTreeMap;

use iosched_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// The name of the number that `Objective::Frames` is: the part of a video's frames that were there in time.
pub const FRAMES_IN_TIME: &str = "frames in time %";

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
    /// What it did that is more than an I/O: transactions of a database. Their bytes are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Flow>,
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
    /// Largest completion latency of those in the bins.
    pub latency_max_ns: u64,
    /// Completion latencies: (ns, count), ascending; of what was completed while they were counted
    /// ([`crate::trial::Trial::counted_s`]).
    pub latency_bins: Vec<(u64, u64)>,
}

impl Flow {
    /// Of what took so long each, in ns, counted in bins as `bin` says; `rate` makes of their number how many a second; `None` of nothing. Bytes are
    /// the caller's to say.
    pub(crate) fn of_latencies(
        latencies_ns: impl Iterator<Item = u64>,
        bin: impl Fn(u64) -> u64,
        rate: impl FnOnce(u64) -> f64,
    ) -> Option<Flow> {
        let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut ios, mut sum, mut largest) = (0_u64, 0.0, 0);
        for latency_ns in latencies_ns {
            *bins.entry(bin(latency_ns)).or_default() += 1;
            ios += 1;
            sum += latency_ns as f64;
            largest = largest.max(latency_ns);
        }
        (ios > 0).then(|| Flow {
            ios,
            bytes: 0,
            bytes_per_s: 0.0,
            iops: rate(ios),
            latency_mean_ns: sum / ios as f64,
            latency_max_ns: largest,
            latency_bins: bins.into_iter().collect(),
        })
    }
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
    /// Transactions per second of all workers, the time to connect not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_s: Option<f64>,
    /// How long a fixed amount of work took, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// The number that the load was asked to find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// The unit of the last digit that was printed of it: 0.01 of `3.45`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_unit: Option<f64>,
    /// What else the load says, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
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

impl JobResult {
    /// All directions that had I/O, and transactions.
    pub fn flows(&self) -> Vec<&Flow> {
        [&self.read, &self.write, &self.trim, &self.transactions]
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
    /// Of the I/Os of all of them together; nothing if there were none.
    pub(crate) fn of(flows: &[&Flow]) -> Option<Latency> {
        let ios = count(flows);
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

/// I/Os of all of them. Each count is from outside, so that the sum need not be one.
pub(crate) fn count(flows: &[&Flow]) -> u64 {
    let counts = flows.iter().map(|flow| flow.ios);
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(latencies_ns: &[u64]) -> Flow {
        let latencies_ns = latencies_ns.iter().copied();
        Flow::of_latencies(latencies_ns, |ns| ns, |ios| ios as f64).unwrap()
    }

    #[test]
    fn the_mean_of_several_workers_counts_each_io_once() {
        let latency = Latency::of(&[&flow(&[100; 9]), &flow(&[1000])]).unwrap();
        assert!((latency.mean_ns - 190.0).abs() < 1e-9, "{latency:?}");
    }

    #[test]
    fn percentiles_are_of_all_ios_and_not_of_the_workers_percentiles() {
        // Of the second worker's, half are slow; of all, one in two hundred.
        let latency = Latency::of(&[&flow(&[100; 198]), &flow(&[100, 1000])]).unwrap();
        assert!(latency.p99_ns < 200.0 && latency.p999_ns > 900.0);
        assert!((latency.max_ns - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn of_no_io_there_is_no_latency() {
        assert!(Latency::of(&[]).is_none());
        let nothing = Flow::of_latencies(std::iter::empty(), |ns| ns, |ios| ios as f64);
        assert!(nothing.is_none());
    }

    #[test]
    fn counts_from_outside_that_are_too_many_to_add_are_no_fault_of_ours() {
        let mut flow = flow(&[1]);
        flow.ios = u64::MAX;
        assert_eq!(count(&[&flow, &flow]), u64::MAX);
    }
}
