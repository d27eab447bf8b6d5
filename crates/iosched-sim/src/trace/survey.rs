//! What is in a trace: counted once, before anything is replayed.

use std::collections::BTreeMap;

use super::record::{DeviceId, Record, Stage};
use crate::request::ProcessId;
use crate::units::{Sector, Time};

/// Most processes that are told apart. Accesses of further ones are counted together.
pub const MOST_PROCESSES: usize = 4096;

/// Accesses at each stage.
type Stages = [u64; 3];

/// One device's part of a trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceUse {
    stages: Stages,
    /// The position after the last sector that was touched.
    pub end: Sector,
}

/// One process's part of a trace.
#[derive(Debug, Clone, Copy)]
pub struct ProcessUse {
    /// What it submitted.
    pub accesses: u64,
    /// When it did so first.
    pub first: Time,
}

/// What a trace holds, as far as it was looked at.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    stages: Stages,
    responses: u64,
    first: [Option<Time>; 3],
    last: Time,
    devices: BTreeMap<DeviceId, DeviceUse>,
    processes: BTreeMap<ProcessId, ProcessUse>,
    others: u64,
}

impl Survey {
    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        let stage = record.stage as usize;
        self.stages[stage] += 1;
        self.responses += u64::from(record.response.is_some());
        self.first[stage].get_or_insert(record.time);
        self.last = record.time;
        let device = self.devices.entry(record.device).or_default();
        device.stages[stage] += 1;
        device.end = device.end.max(record.start + record.length);
        if record.stage == Stage::Submitted {
            self.add_process(record);
        }
    }

    fn add_process(&mut self, record: &Record) {
        let room = self.processes.len() < MOST_PROCESSES;
        if !room && !self.processes.contains_key(&record.process) {
            self.others += 1;
            return;
        }
        let process = self.processes.entry(record.process);
        let process = process.or_insert(ProcessUse {
            accesses: 0,
            first: record.time,
        });
        process.accesses += 1;
    }

    /// The stage at which an access counts as made: where it was submitted, or else where the driver
    /// took it. Nothing if the trace has neither.
    pub fn made(&self) -> Option<Stage> {
        [Stage::Submitted, Stage::Issued]
            .into_iter()
            .find(|&stage| self.at(stage) > 0)
    }

    /// Records of this stage.
    pub fn at(&self, stage: Stage) -> u64 {
        self.stages[stage as usize]
    }

    /// Accesses that have their response time.
    pub fn responses(&self) -> u64 {
        self.responses
    }

    /// When the first access was made.
    pub fn first(&self) -> Option<Time> {
        self.first[self.made()? as usize]
    }

    /// When the last record was made.
    pub fn last(&self) -> Time {
        self.last
    }

    /// The devices on which accesses were made.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceId, &DeviceUse)> {
        let made = self.made();
        let used =
            move |device: &DeviceUse| made.is_some_and(|made| device.stages[made as usize] > 0);
        let all = self.devices.iter();
        all.map(|(&id, device)| (id, device))
            .filter(move |(_, device)| used(device))
    }

    /// The processes that submitted accesses, without those beyond [`MOST_PROCESSES`].
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, &ProcessUse)> {
        self.processes.iter().map(|(&id, process)| (id, process))
    }

    /// Accesses of processes that were not told apart.
    pub fn others(&self) -> u64 {
        self.others
    }
}
