//! What came out of a run: who got how much, how long it took, what the disk did.

use crate::histogram::Histogram;
use crate::units::{Bytes, Nanos, Time};

/// Latencies of accesses as their program sees them, whole and in the three parts that add up to it.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// From the submission until the program takes the answer.
    pub total: Histogram,
    /// The program slept for want of a free request or tag: for this access, or for another one while
    /// the answer to this one was there already.
    pub before: Histogram,
    /// From the request's allocation, or the merge, to the issue.
    pub queue: Histogram,
    /// Issue to completion.
    pub service: Histogram,
}

impl Latencies {
    /// Counts an access. Those that did not wait before are counted by [`Latencies::end`], all at once.
    pub(super) fn add(&mut self, before: Nanos, queue: Nanos, service: Nanos) {
        self.total.add(before + queue + service);
        if before > Nanos::ZERO {
            self.before.add(before);
        }
        self.queue.add(queue);
        self.service.add(service);
    }

    /// No more are counted.
    pub(super) fn end(&mut self) {
        self.before
            .add_zeros(self.total.count() - self.before.count());
    }

    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Latencies) -> Latencies {
        let mut both = self.clone();
        both.merge(other);
        both
    }

    fn merge(&mut self, other: &Latencies) {
        self.total.merge(&other.total);
        self.before.merge(&other.before);
        self.queue.merge(&other.queue);
        self.service.merge(&other.service);
    }
}

/// One direction of a process: what was read, or what was written and given back.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// Data of the accesses that completed.
    pub bytes: Bytes,
    /// How long they took; how many there were.
    pub latencies: Latencies,
}

/// What a process got.
#[derive(Debug, Clone)]
pub struct ProcessOutcome {
    /// Its name.
    pub name: String,
    /// How long it ran.
    pub elapsed: Nanos,
    /// What it read.
    pub read: Flow,
    /// What it wrote.
    pub write: Flow,
    /// How long its syncs took, and how many there were.
    pub syncs: Latencies,
}

impl ProcessOutcome {
    /// Both directions.
    pub fn flows(&self) -> [&Flow; 2] {
        [&self.read, &self.write]
    }

    /// Accesses completed.
    pub fn accesses(&self) -> u64 {
        let counts = self.flows().map(|flow| flow.latencies.total.count());
        counts.iter().sum()
    }

    /// Data of them.
    pub fn bytes(&self) -> Bytes {
        self.read.bytes + self.write.bytes
    }

    /// How long they took.
    pub fn latencies(&self) -> Latencies {
        self.read.latencies.with(&self.write.latencies)
    }
}

/// What the disk completed in one of the slices of time that a run is cut into ([`Setup::slice`](super::Setup::slice)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    /// Accesses of processes, and writes of the flusher's.
    pub accesses: u64,
    /// Data of them.
    pub bytes: Bytes,
}

/// The slices of a run while it goes on.
pub(super) struct Slices {
    length: Nanos,
    /// Of the one that is under way.
    end: Time,
    current: Slice,
    complete: Vec<Slice>,
}

impl Slices {
    /// Of this length; one that never ends, where none is given.
    pub(super) fn new(length: Option<Nanos>) -> Slices {
        let length = length.filter(|&length| length > Nanos::ZERO);
        Slices {
            length: length.unwrap_or(Nanos::ZERO),
            end: length.map_or(Time::MAX, |length| Time::ZERO + length),
            current: Slice::default(),
            complete: Vec::new(),
        }
    }

    /// An access is completed.
    #[inline]
    pub(super) fn add(&mut self, now: Time, bytes: Bytes) {
        if now >= self.end {
            self.end_slices(now);
        }
        self.current.accesses += 1;
        self.current.bytes += bytes;
    }

    #[inline(never)]
    fn end_slices(&mut self, now: Time) {
        while now >= self.end && self.end < Time::MAX {
            self.complete.push(std::mem::take(&mut self.current));
            self.end += self.length;
        }
    }

    /// Those that are complete.
    pub(super) fn end(self) -> Vec<Slice> {
        self.complete
    }
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
    /// What was completed in each slice of time, as far as slices are complete; nothing where none were asked for.
    pub slices: Vec<Slice>,
    /// In an open loop: for how long the trace's clock stood still because too many accesses waited. In closed loops: for
    /// how long processes waited because the accesses of all had too many bios.
    pub held_back: Nanos,
}

/// What the disk did.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskUse {
    /// Commands that it got: merged accesses count once.
    pub commands: u64,
    /// Those of them that read.
    pub reads: u64,
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
            .map(|process| {
                process.bytes().as_u64() as f64 / process.elapsed.as_secs_f64().max(1e-9)
            })
            .collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        if squares == 0.0 {
            1.0
        } else {
            sum * sum / (rates.len() as f64 * squares)
        }
    }

    /// All processes' reads, and all their writes.
    pub fn flows(&self) -> [Flow; 2] {
        let mut all = [Flow::default(), Flow::default()];
        for process in &self.processes {
            for (all, flow) in all.iter_mut().zip(process.flows()) {
                all.bytes += flow.bytes;
                all.latencies.merge(&flow.latencies);
            }
        }
        all
    }

    /// All processes' latencies together.
    pub fn latencies(&self) -> Latencies {
        let [read, write] = self.flows();
        read.latencies.with(&write.latencies)
    }
}
