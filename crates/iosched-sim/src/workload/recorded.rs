//! From the records of a trace to closed loops: which process made which access, how many others of its
//! own were in flight, and how long it had thought.
//!
//! What a process would have done had the disk answered otherwise is not in a trace; that each access waits
//! for as many answers as it did, and comes as long after, is the best guess. Left out: processes that
//! wait for one another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::replay::Step;
use super::{Access, Job};
use crate::request::{IoPriority, ProcessId};
use crate::trace::{DeviceId, Record, Stage};
use crate::units::{Nanos, Sector, Time};

/// What the recording's process took from an answer to its next access on the host's account: the
/// simulated host takes as long by itself.
const WAKEUP: Nanos = Nanos::from_micros(24);

/// Most accesses in flight: of more, the oldest count as answered, so that memory does not grow with a
/// trace that lost events.
pub(crate) const MOST_IN_FLIGHT: usize = 1 << 16;

/// How a trace says that accesses were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Completions are recorded.
    Events,
    /// Each access has its response time.
    Responses,
    /// Each access waited for the one before it: only pauses are recorded.
    OneByOne,
}

/// Turns accesses and answers, in the order of time, into the steps of closed loops.
#[derive(Debug)]
pub struct ClosedLoops {
    /// The stage at which an access counts as made.
    made: Stage,
    answers: Answers,
    processes: BTreeMap<ProcessId, Process>,
    /// Accesses in flight by position.
    in_flight: BTreeMap<AccessKey, InFlight>,
    /// What the last record answered: whether it is a write, and how long it took.
    answered_now: Vec<(bool, Nanos)>,
    /// Answers that are known beforehand.
    due: BinaryHeap<Reverse<(Time, ProcessId)>>,
    count: u64,
    lost: u64,
}

/// Device and direction, first sector, number.
type AccessKey = ((DeviceId, bool), Sector, u64);

/// An access that was not answered yet.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    process: ProcessId,
    end: Sector,
    since: Time,
}

/// Where a process stands.
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    in_flight: usize,
    deepest: usize,
    /// Its last access or answer.
    last: Option<Time>,
}

impl ClosedLoops {
    /// Of a trace whose accesses are made at this stage and answered like this.
    pub fn new(made: Stage, answers: Answers) -> ClosedLoops {
        ClosedLoops {
            made,
            answers,
            processes: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            answered_now: Vec::new(),
            due: BinaryHeap::new(),
            count: 0,
            lost: 0,
        }
    }

    /// Takes a record; gives the step, if it is one.
    pub fn step(&mut self, record: &Record) -> Option<Step> {
        self.answered_now.clear();
        if record.stage == Stage::Completed && self.answers == Answers::Events {
            self.completed(record);
        }
        if record.stage != self.made {
            return None;
        }
        while let Some(Reverse((time, process))) = self.due.peek().copied()
            && (time <= record.time || self.due.len() > MOST_IN_FLIGHT)
        {
            self.due.pop();
            self.answered(process, time.min(record.time));
        }
        let host = match self.answers {
            Answers::OneByOne => Nanos::ZERO,
            Answers::Events | Answers::Responses => WAKEUP,
        };
        let process = self.processes.entry(record.process).or_default();
        let beside = process.in_flight;
        let think = process
            .last
            .map_or(Nanos::ZERO, |last| record.time.saturating_since(last));
        process.last = Some(record.time);
        if self.answers != Answers::OneByOne {
            process.in_flight += 1;
            self.expect_answer(record);
        }
        let process = self.processes.entry(record.process).or_default();
        process.deepest = process.deepest.max(beside + 1);
        Some(Step {
            access: Access::from(record),
            beside,
            think: think.saturating_sub(host),
        })
    }

    fn expect_answer(&mut self, record: &Record) {
        if let Some(response) = record.response {
            self.due
                .push(Reverse((record.time + response, record.process)));
            return;
        }
        if self.in_flight.len() == MOST_IN_FLIGHT {
            self.give_up_on_the_older_half(record.time);
        }
        self.count += 1;
        let end = record.start + record.length;
        let kind = (record.device, record.op.is_write());
        let place = (kind, record.start, self.count);
        let access = InFlight {
            process: record.process,
            end,
            since: record.time,
        };
        self.in_flight.insert(place, access);
    }

    fn give_up_on_the_older_half(&mut self, now: Time) {
        let young = self.count - MOST_IN_FLIGHT as u64 / 2;
        let old = self.in_flight.iter();
        let old = old.filter(|((_, _, count), _)| *count < young);
        let old: Vec<_> = old
            .map(|(&place, access)| (place, access.process))
            .collect();
        self.lost += old.len() as u64;
        for (place, process) in old {
            self.in_flight.remove(&place);
            self.answered(process, now);
        }
    }

    /// The accesses that the request was made of are answered: those that follow one another from its
    /// beginning to its end. Where there is a gap, because events were lost, all within it.
    fn completed(&mut self, record: &Record) {
        let end = record.start + record.length;
        let mut at = record.start;
        while at < end {
            let Some(place) = self.oldest_at(record, at, end) else {
                self.complete_all_within(record, at, end);
                return;
            };
            at = self.complete(place, record.time);
        }
    }

    /// Answers the access in this place, and says where it ends.
    fn complete(&mut self, place: AccessKey, now: Time) -> Sector {
        let access = self.in_flight.remove(&place).expect("it was found there");
        let ((_, is_write), ..) = place;
        let took = now.saturating_since(access.since);
        self.answered_now.push((is_write, took));
        self.answered(access.process, now);
        access.end
    }

    fn oldest_at(&self, record: &Record, at: Sector, end: Sector) -> Option<AccessKey> {
        let kind = (record.device, record.op.is_write());
        let mut here = self.in_flight.range((kind, at, 0)..=(kind, at, u64::MAX));
        here.find(|(_, access)| access.end <= end)
            .map(|(&place, _)| place)
    }

    fn complete_all_within(&mut self, record: &Record, at: Sector, end: Sector) {
        let kind = (record.device, record.op.is_write());
        let within = self.in_flight.range((kind, at, 0)..(kind, end, 0));
        let within = within.filter(|(_, access)| access.end <= end);
        let done: Vec<AccessKey> = within.map(|(&place, _)| place).collect();
        for place in done {
            self.complete(place, record.time);
        }
    }

    /// What the last record answered: whether each is a write, and how long it took.
    pub fn answered_now(&self) -> &[(bool, Nanos)] {
        &self.answered_now
    }

    fn answered(&mut self, process: ProcessId, time: Time) {
        let process = self.processes.entry(process).or_default();
        process.in_flight -= 1;
        process.last = process.last.max(Some(time));
    }

    /// Accesses whose answer is not in the trace.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Most accesses that the process had in flight.
    pub fn deepest(&self, process: ProcessId) -> usize {
        self.processes
            .get(&process)
            .map_or(1, |process| process.deepest.max(1))
    }
}

impl From<&Record> for Access {
    fn from(record: &Record) -> Access {
        Access {
            op: record.op,
            start: record.start,
            length: record.length,
            sync: record.sync,
        }
    }
}

/// A process whose accesses come from a trace; the first of them `delay` after the trace begins.
pub fn job(name: &str, priority: IoPriority, delay: Nanos, depth: usize) -> Job {
    Job {
        name: name.to_owned(),
        depth,
        batch: depth,
        priority,
        delay,
        ..Job::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use crate::units::Sectors;

    fn record(stage: Stage, micros: u64, process: u32, start: u64, length: u64) -> Record {
        Record {
            time: Time::ZERO + Nanos::from_micros(micros),
            stage,
            op: Op::Read,
            sync: true,
            start: Sector::new(start),
            length: Sectors::new(length),
            process: ProcessId(process),
            device: DeviceId(0),
            response: None,
        }
    }

    /// What is beside each step, and its pause in microseconds.
    fn steps(loops: &mut ClosedLoops, records: &[Record]) -> Vec<(usize, u64)> {
        let steps = records.iter().filter_map(|record| loops.step(record));
        steps
            .map(|step| (step.beside, step.think.as_nanos() / 1000))
            .collect()
    }

    #[test]
    fn pauses_and_depths_are_those_of_the_trace() {
        use Stage::{Completed, Issued, Submitted};
        let mut loops = ClosedLoops::new(Submitted, Answers::Events);
        let records = [
            record(Submitted, 0, 1, 100, 8),
            record(Submitted, 1, 2, 200, 8),
            record(Submitted, 2, 2, 208, 8),
            record(Issued, 3, 2, 200, 16),
            record(Completed, 1000, 0, 100, 8),
            record(Submitted, 3020, 1, 300, 8),
            // Merged: both are answered.
            record(Completed, 4000, 0, 200, 16),
            record(Submitted, 4100, 2, 400, 8),
            record(Submitted, 4200, 2, 500, 8),
        ];
        let expected = [(0, 0), (0, 0), (1, 0), (0, 1996), (0, 76), (1, 76)];
        assert_eq!(steps(&mut loops, &records), expected);
        assert_eq!(loops.deepest(ProcessId(1)), 1);
        assert_eq!(loops.deepest(ProcessId(2)), 2);
        assert_eq!(loops.lost(), 0);
    }

    #[test]
    fn response_times_stand_for_completions() {
        let mut loops = ClosedLoops::new(Stage::Submitted, Answers::Responses);
        let with_response = |micros, response| Record {
            response: Some(Nanos::from_micros(response)),
            ..record(Stage::Submitted, micros, 0, 100, 8)
        };
        let records = [
            with_response(0, 1000),
            with_response(10, 100),
            with_response(500, 100),
            with_response(2000, 1),
        ];
        let expected = [(0, 0), (1, 0), (1, 366), (0, 976)];
        assert_eq!(steps(&mut loops, &records), expected);
    }

    #[test]
    fn pauses_alone_mean_one_by_one() {
        let mut loops = ClosedLoops::new(Stage::Submitted, Answers::OneByOne);
        let records = [0, 0, 1500].map(|micros| record(Stage::Submitted, micros, 0, 8, 8));
        assert_eq!(steps(&mut loops, &records), [(0, 0), (0, 0), (0, 1500)]);
    }
}
