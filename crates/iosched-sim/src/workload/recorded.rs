//! The load of a recording, as closed loops: each process makes the accesses that it made there, one
//! after the other, with as many in flight and the pauses that it had.
//!
//! What a process would have done had the disk answered otherwise is not in a recording; that each
//! access waits for the one before it, and thinks as long, is the best guess. The accesses are kept in
//! memory, 32 bytes for each. Left out: writeback (asynchronous writes become synchronous ones), processes
//! that began one another.

use std::collections::BTreeMap;

use super::{Access, Job};
use crate::request::{IoPriority, ProcessId};
use crate::trace::kernel::{Action, Event, Line, Reader, Remark, TraceError};
use crate::units::{Bytes, Nanos, Sector, Sectors, Time};

/// What the recording's process took from a completion to its next submission on its own account:
/// the simulated host takes as long by itself.
const WAKEUP: Nanos = Nanos::from_micros(24);

/// Collects a load from a recording. Feed it lines, then [`Recorded::jobs`].
#[derive(Debug, Default)]
pub struct Recorded {
    reader: Reader,
    first: Option<Time>,
    processes: BTreeMap<ProcessId, Process>,
    priorities: BTreeMap<ProcessId, IoPriority>,
    /// Bios between submission and completion, by position.
    outstanding: BTreeMap<(Sector, u64), (ProcessId, Sector)>,
    count: u64,
    end: Sector,
}

#[derive(Debug, Default)]
struct Process {
    name: String,
    accesses: Vec<Access>,
    begins: Nanos,
    in_flight: usize,
    depth: usize,
    last_completion: Option<Time>,
}

impl Recorded {
    /// Reads a line.
    pub fn line(&mut self, text: &str) -> Result<(), TraceError> {
        match self.reader.read(text)? {
            Some(Line::Remark(Remark::Worker {
                process, priority, ..
            })) => {
                self.priorities.insert(process, priority);
            }
            Some(Line::Event(event)) => self.event(&event),
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) {
        match (event.action, event.op) {
            (Action::Queued, Some(op)) if event.length > Sectors::ZERO => {
                let first = *self.first.get_or_insert(event.time);
                let process = self.processes.entry(event.process).or_default();
                if process.accesses.is_empty() {
                    process.name.clone_from(&event.comm);
                    process.begins = event.time - first;
                }
                let idle = process.last_completion.filter(|_| process.in_flight == 0);
                let think = idle.map_or(Nanos::ZERO, |last| event.time.saturating_since(last));
                process.accesses.push(Access {
                    op,
                    start: event.start,
                    length: event.length,
                    think: think.saturating_sub(WAKEUP),
                });
                process.in_flight += 1;
                process.depth = process.depth.max(process.in_flight);
                let end = event.start + event.length;
                self.end = self.end.max(end);
                self.count += 1;
                self.outstanding
                    .insert((event.start, self.count), (event.process, end));
            }
            (Action::Completed, Some(_)) => self.completed(event),
            _ => {}
        }
    }

    /// All bios within the request are done.
    fn completed(&mut self, event: &Event) {
        let end = event.start + event.length;
        let within = self.outstanding.range((event.start, 0)..(end, 0));
        let done: Vec<_> = within
            .filter(|(_, (_, bio_end))| *bio_end <= end)
            .map(|(&place, &(process, _))| (place, process))
            .collect();
        for (place, process) in done {
            self.outstanding.remove(&place);
            let process = self.processes.get_mut(&process).expect("it submitted");
            process.in_flight -= 1;
            process.last_completion = Some(event.time);
        }
    }

    /// The position after the last sector that was touched: the disk is at least that large.
    pub fn end(&self) -> Sector {
        self.end
    }

    /// The processes.
    pub fn jobs(self) -> Vec<Job> {
        let priorities = self.priorities;
        let span = self.end - Sector::ZERO;
        let jobs = self.processes.into_iter().map(|(id, process)| {
            let bytes: Bytes = process
                .accesses
                .iter()
                .map(|access| access.length.to_bytes())
                .sum();
            Job {
                name: process.name,
                start: Sector::ZERO,
                span,
                depth: process.depth.max(1),
                batch: process.depth.max(1),
                priority: priorities.get(&id).copied().unwrap_or_default(),
                delay: process.begins,
                amount: Some(bytes),
                listed: Some(process.accesses),
                ..Job::default()
            }
        });
        jobs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Op, PriorityClass};

    #[test]
    fn accesses_pauses_and_depths_are_those_of_the_recording() {
        let mut recorded = Recorded::default();
        let lines = [
            "# worker name=a pid=1 ioprio=2/0 buf=0",
            "0 Q R 100 8 1 a a",
            "1 Q R 200 8 2 b b",
            "2 Q WS 208 8 2 b b",
            "1000 C R 100 8 0 0 a",
            "3020 Q R 300 8 1 a a",
            "4000 C R 200 16 0 0 b",
            "4100 Q R 400 8 2 b b",
        ];
        for line in lines {
            recorded.line(line).unwrap();
        }
        assert_eq!(recorded.end(), Sector::new(408));
        let jobs = recorded.jobs();
        let [a, b] = &jobs[..] else {
            panic!("{} jobs", jobs.len())
        };
        assert_eq!((a.name.as_str(), a.depth), ("a", 1));
        assert_eq!(
            (a.priority.class, a.priority.level),
            (PriorityClass::BestEffort, 0)
        );
        let listed = a.listed.as_ref().unwrap();
        assert_eq!(listed[1].think, Nanos::from_micros(1_996));
        assert_eq!((b.depth, b.delay), (2, Nanos::from_micros(1)));
        let listed = b.listed.as_ref().unwrap();
        assert_eq!((listed[1].op, listed[1].think), (Op::Write, Nanos::ZERO));
        assert_eq!(listed[2].think, Nanos::from_micros(76));
    }
}
