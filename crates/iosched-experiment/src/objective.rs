//! Objectives: which number of a trial decides, and which way is better.

use serde::{Deserialize, Serialize};

use crate::metrics::{FRAMES_IN_TIME, Metrics};

/// The number of a trial that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Bytes per second, reads and writes together.
    Throughput,
    /// I/Os per second, reads and writes together.
    Iops,
    /// Mean completion latency of all I/Os.
    Mean,
    /// Median completion latency of all I/Os.
    P50,
    /// 99th percentile of the completion latency of all I/Os.
    P99,
    /// 99.9th percentile of the completion latency of all I/Os.
    P999,
    /// Mean completion latency of reads.
    ReadMean,
    /// 99th percentile of the completion latency of reads.
    ReadP99,
    /// Jain's index of the jobs' throughputs.
    Fairness,
    /// CPU time of the whole machine per I/O.
    Cpu,
    /// Transactions per second, the time to connect not counted.
    Tps,
    /// How long a fixed amount of work takes.
    Time,
    /// Part of a video's frames that are there when they are to be shown: of records of older versions.
    Frames,
    /// The number that a command prints; more is better.
    NumberHigher,
    /// The number that a command prints; less is better.
    NumberLower,
}

impl Objective {
    /// Those that can be asked for by name, in the order of the help text. The others come with the
    /// load that has them.
    pub const ALL: [Objective; 12] = [
        Objective::Throughput,
        Objective::Iops,
        Objective::Mean,
        Objective::P50,
        Objective::P99,
        Objective::P999,
        Objective::ReadMean,
        Objective::ReadP99,
        Objective::Fairness,
        Objective::Cpu,
        Objective::Tps,
        Objective::Time,
    ];

    /// What the user types.
    pub fn name(self) -> &'static str {
        match self {
            Objective::Throughput => "throughput",
            Objective::Iops => "iops",
            Objective::Mean => "mean",
            Objective::P50 => "p50",
            Objective::P99 => "p99",
            Objective::P999 => "p999",
            Objective::ReadMean => "read-mean",
            Objective::ReadP99 => "read-p99",
            Objective::Fairness => "fairness",
            Objective::Cpu => "cpu",
            Objective::Tps => "tps",
            Objective::Time => "time",
            Objective::Frames => "frames",
            Objective::NumberHigher | Objective::NumberLower => "number",
        }
    }

    /// What it is called in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Objective::Throughput => "throughput",
            Objective::Iops => "I/Os per second",
            Objective::Mean => "mean latency",
            Objective::P50 => "median latency",
            Objective::P99 => "p99 latency",
            Objective::P999 => "p99.9 latency",
            Objective::ReadMean => "mean read latency",
            Objective::ReadP99 => "p99 read latency",
            Objective::Fairness => "fairness between jobs",
            Objective::Cpu => "CPU time per I/O",
            Objective::Tps => "transactions per second",
            Objective::Time => "elapsed time",
            Objective::Frames => "frames in time",
            Objective::NumberHigher | Objective::NumberLower => "printed number",
        }
    }

    /// The objective of this name.
    pub fn from_name(name: &str) -> Option<Objective> {
        Objective::ALL
            .into_iter()
            .find(|objective| objective.name() == name)
    }

    /// True if 0 is a measurement like any other, and less than 0 too.
    pub(crate) fn may_be_zero(self) -> bool {
        matches!(self, Objective::NumberHigher | Objective::NumberLower)
    }

    /// The unit of the last digit of the number, where a program printed it.
    pub(crate) fn unit(self, metrics: &Metrics) -> Option<f64> {
        match self {
            Objective::NumberHigher | Objective::NumberLower => metrics.number_unit,
            _ => None,
        }
    }

    /// True if more is better.
    pub fn higher_is_better(self) -> bool {
        matches!(
            self,
            Objective::Throughput
                | Objective::Iops
                | Objective::Fairness
                | Objective::Tps
                | Objective::Frames
                | Objective::NumberHigher
        )
    }

    /// The number in a trial's metrics; `None` where the load has none (no reads, say).
    pub fn of(self, metrics: &Metrics) -> Option<f64> {
        match self {
            Objective::Throughput => Some(metrics.throughput_bytes_per_s),
            Objective::Iops => Some(metrics.iops),
            Objective::Mean => metrics.all.as_ref().map(|flow| flow.mean_ns),
            Objective::P50 => metrics.all.as_ref().map(|flow| flow.p50_ns),
            Objective::P99 => metrics.all.as_ref().map(|flow| flow.p99_ns),
            Objective::P999 => metrics.all.as_ref().map(|flow| flow.p999_ns),
            Objective::ReadMean => metrics.read.as_ref().map(|flow| flow.mean_ns),
            Objective::ReadP99 => metrics.read.as_ref().map(|flow| flow.p99_ns),
            Objective::Fairness => metrics.fairness,
            Objective::Cpu => metrics.cpu_ns_per_io,
            Objective::Tps => metrics.transactions_per_s,
            Objective::Time => metrics.elapsed_s,
            Objective::Frames => metrics.numbers.get(FRAMES_IN_TIME).copied(),
            Objective::NumberHigher | Objective::NumberLower => metrics.number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again_and_stands_for_one() {
        for objective in Objective::ALL {
            assert_eq!(Objective::from_name(objective.name()), Some(objective));
        }
        assert_eq!(Objective::from_name("number"), None);
    }
}
