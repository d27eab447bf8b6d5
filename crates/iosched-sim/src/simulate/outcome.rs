//! What came out of a run: who got how much, how long it took, what the disk did.

use crate::histogram::Histogram;
use crate::units::{Bytes, Nanos};

/// Latencies of accesses: from submission to issue (queue), from there to completion (service), and
/// together.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// Queue and service together.
    pub total: Histogram,
    /// Submission to issue.
    pub queue: Histogram,
    /// Issue to completion.
    pub service: Histogram,
}

/// What a process got.
#[derive(Debug, Clone)]
pub struct ProcessOutcome {
    /// Its name.
    pub name: String,
    /// Accesses completed.
    pub accesses: u64,
    /// Data of them.
    pub bytes: Bytes,
    /// How long it ran.
    pub elapsed: Nanos,
    /// How long its accesses took.
    pub latencies: Latencies,
}

/// What came out of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Process by process, in the order of the load.
    pub processes: Vec<ProcessOutcome>,
    /// From the first submission to the last completion.
    pub elapsed: Nanos,
    /// What the disk did.
    pub disk: DiskUse,
}

/// What the disk did.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskUse {
    /// Commands that it got: merged accesses count once.
    pub commands: u64,
    /// Sum of distances from the end of a command to the beginning of the next issued.
    pub seek_sectors: u64,
    /// Commands that began where the one before ended.
    pub contiguous: u64,
    /// Time in which it had something to do.
    pub busy: Nanos,
}

impl Outcome {
    /// Time in which the disk had nothing to do.
    pub fn disk_idle(&self) -> Nanos {
        self.elapsed.saturating_sub(self.disk.busy)
    }

    /// Jain's index of the processes' data rates: 1 if all got the same, 1 / n if one got all.
    pub fn fairness(&self) -> f64 {
        let rates: Vec<f64> = self
            .processes
            .iter()
            .map(|process| process.bytes.as_u64() as f64 / process.elapsed.as_secs_f64().max(1e-9))
            .collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        if squares == 0.0 {
            1.0
        } else {
            sum * sum / (rates.len() as f64 * squares)
        }
    }

    /// All processes' latencies together.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        for process in &self.processes {
            all.total.merge(&process.latencies.total);
            all.queue.merge(&process.latencies.queue);
            all.service.merge(&process.latencies.service);
        }
        all
    }
}
