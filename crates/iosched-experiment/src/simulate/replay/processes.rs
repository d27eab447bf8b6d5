//! Who makes the accesses of a trace: its processes, or in traces without any its devices.

use std::collections::BTreeMap;

use iosched_sim::request::ProcessId;
use iosched_sim::trace::{Labels, MOST_PROCESSES, Record, Survey};
use iosched_sim::units::{Nanos, Time};
use iosched_sim::workload::Job;
use iosched_sim::workload::recorded::{self, ClosedLoops};

#[derive(Debug)]
pub(super) struct Processes {
    /// The trace tells processes apart.
    told_apart: bool,
    /// In the order in which they first made an access.
    order: Vec<(ProcessId, Time)>,
    index: BTreeMap<ProcessId, usize>,
    /// There are more, which are counted together behind these.
    others: bool,
}

impl Processes {
    pub(super) fn new(told_apart: bool, survey: &Survey, labels: &Labels) -> Processes {
        let first = survey.first().unwrap_or_default();
        let mut order: Vec<_> = if told_apart {
            let all = survey.processes();
            all.map(|(id, process)| (id, process.first)).collect()
        } else {
            let all = survey.devices().take(MOST_PROCESSES);
            all.map(|(id, _)| (ProcessId(id.0), first)).collect()
        };
        order.sort_by_key(|&(id, first)| (first, id));
        let others = if told_apart {
            survey.others() > 0
        } else {
            labels.devices().count() > MOST_PROCESSES
        };
        Processes {
            told_apart,
            index: order.iter().map(|(id, _)| *id).zip(0..).collect(),
            order,
            others,
        }
    }

    pub(super) fn has_others(&self) -> bool {
        self.others
    }

    /// The record with whoever counts as its process.
    pub(super) fn identify(&self, mut record: Record) -> Record {
        if !self.told_apart {
            record.process = ProcessId(record.device.0);
        }
        record
    }

    /// Its place among the jobs.
    pub(super) fn index(&self, process: ProcessId) -> usize {
        // Only those that are counted together are not in the table.
        let known = self.index.get(&process).copied();
        known.unwrap_or(self.order.len())
    }

    /// The jobs of an open loop.
    pub(super) fn open(&self, labels: &Labels) -> Vec<Job> {
        self.jobs(labels, |_, _| (Nanos::ZERO, 1))
    }

    /// The jobs of closed loops: when each begins, and how many accesses it has in flight at most.
    pub(super) fn closed(&self, labels: &Labels, first: Time, loops: &ClosedLoops) -> Vec<Job> {
        self.jobs(labels, |id, begins| {
            (begins.saturating_since(first), loops.deepest(id))
        })
    }

    fn jobs(
        &self,
        labels: &Labels,
        think_and_depth: impl Fn(ProcessId, Time) -> (Nanos, usize),
    ) -> Vec<Job> {
        let names = self.names(labels);
        let mut jobs = Vec::new();
        for (&(id, begins), name) in self.order.iter().zip(names) {
            let priority = labels.process(id).and_then(|label| label.priority);
            let (delay, depth) = think_and_depth(id, begins);
            jobs.push(recorded::job(
                &name,
                priority.unwrap_or_default(),
                delay,
                depth,
            ));
        }
        if self.others {
            let (priority, delay) = Default::default();
            jobs.push(recorded::job("others", priority, delay, 1));
        }
        jobs
    }

    /// Names that differ from one another.
    fn names(&self, labels: &Labels) -> Vec<String> {
        if !self.told_apart {
            let devices: Vec<_> = labels.devices().map(|(_, name)| name).collect();
            let name = |(id, _): &(ProcessId, Time)| devices[id.0 as usize].to_owned();
            return self.order.iter().map(name).collect();
        }
        let name = |id: ProcessId| {
            let label = labels.process(id).map(|label| label.name.as_str());
            label.filter(|name| !name.is_empty())
        };
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for (id, _) in &self.order {
            *count.entry(name(*id).unwrap_or_default()).or_default() += 1;
        }
        let unique = |(id, _): &(ProcessId, Time)| match name(*id) {
            Some(name) if count[name] == 1 => name.to_owned(),
            Some(name) => format!("{name} ({})", id.0),
            None => format!("pid {}", id.0),
        };
        self.order.iter().map(unique).collect()
    }
}
