//! Models without mechanics: a rule gives each command's service time, one server takes them as
//! they come.
//!
//! `null` answers at once. `fixed` and `formula` are the two disks on which the kernel traces of
//! this project's validation were recorded (`fix1`, `hdd1`), so that a simulation can be compared
//! with the recording. Left out on purpose: everything else.

use std::collections::VecDeque;

use super::admission::{Admission, CompletionQueue};
use super::{Command, Completion, DiskModel, DiskOp, assert_on_disk};
use crate::units::{Nanos, Sector, Sectors, Time};

/// How long one command takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceTime {
    /// Nothing: complete when submitted.
    Zero,
    /// Always the same.
    Fixed(Nanos),
    /// `overhead + per_sector * length`, and unless it starts where the last one ended
    /// `+ positioning + full_stroke * sqrt(distance / capacity)`.
    Formula {
        /// For every command.
        overhead: Nanos,
        /// For each sector.
        per_sector: Nanos,
        /// For leaving the place where the last one ended.
        positioning: Nanos,
        /// For moving over the whole disk, besides.
        full_stroke: Nanos,
    },
}

/// What makes one model without mechanics differ from another.
#[derive(Debug, Clone, PartialEq)]
pub struct SimpleParameters {
    /// Of the whole disk.
    pub capacity: Sectors,
    /// Commands taken at a time.
    pub queue_depth: usize,
    /// What a kernel would find in `queue/rotational`.
    pub rotational: bool,
    /// How long a command takes.
    pub rule: ServiceTime,
}

/// The disk `hdd1` of the recordings.
pub(crate) const HDD1: ServiceTime = ServiceTime::Formula {
    overhead: Nanos::from_micros(100),
    per_sector: Nanos::from_micros(5),
    positioning: Nanos::from_micros(4_670),
    full_stroke: Nanos::from_millis(7),
};

/// The disk `fix1` of the recordings.
pub(crate) const FIX1: ServiceTime = ServiceTime::Fixed(Nanos::from_millis(1));

/// Servers with one rule; each takes the next command that waits for admission. With [`ServiceTime::Formula`] there
/// is one, because there is one place where the last command ended; else as many as the depth.
#[derive(Debug)]
pub(crate) struct SimpleDisk {
    capacity: Sectors,
    queue_depth: usize,
    rule: ServiceTime,
    admission: Admission,
    completed_commands: CompletionQueue,
    /// Commands in service, by their ends; of those that end together the one that came first.
    /// Nearly always the order that they came in.
    in_service: VecDeque<Completion>,
    last_end: Sector,
    now: Time,
}

impl SimpleDisk {
    /// A disk of this size that takes up to `queue_depth` commands at a time.
    pub(crate) fn new(capacity: Sectors, rule: ServiceTime, queue_depth: usize) -> SimpleDisk {
        let servers = match rule {
            ServiceTime::Formula { .. } => 1,
            ServiceTime::Zero | ServiceTime::Fixed(_) => queue_depth,
        };
        SimpleDisk {
            capacity,
            queue_depth,
            rule,
            admission: Admission::new(servers),
            completed_commands: CompletionQueue::default(),
            in_service: VecDeque::with_capacity(servers.min(1024)),
            last_end: Sector::ZERO,
            now: Time::ZERO,
        }
    }

    fn service_time(&self, command: &Command) -> Nanos {
        if matches!(command.op, DiskOp::Flush | DiskOp::Discard) {
            return Nanos::ZERO; // nothing is cached, nothing is forgotten
        }
        match self.rule {
            ServiceTime::Zero => Nanos::ZERO,
            ServiceTime::Fixed(time) => time,
            ServiceTime::Formula {
                overhead,
                per_sector,
                positioning,
                full_stroke,
            } => {
                let transfer = overhead + per_sector * command.length.as_u64();
                if command.start == self.last_end {
                    return transfer;
                }
                let distance = command.start.distance(self.last_end).as_u64();
                let share = (distance as f64 / self.capacity.as_u64() as f64).sqrt();
                transfer + positioning + Nanos::from_millis_f64(full_stroke.as_millis_f64() * share)
            }
        }
    }

    fn start_next(&mut self, now: Time) {
        while let Some(command) = self.admission.enter() {
            let time = now + self.service_time(&command);
            if !matches!(command.op, DiskOp::Flush) {
                self.last_end = command.end();
            }
            let completion = Completion {
                tag: command.tag,
                started: now,
                time,
            };
            let longer = self.in_service.iter().rev();
            let longer = longer.take_while(|other| other.time > time).count();
            let place = self.in_service.len() - longer;
            self.in_service.insert(place, completion);
        }
    }

    fn catch_up(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(&completion) = self.in_service.front() {
            if completion.time > self.now {
                break;
            }
            self.in_service.pop_front();
            self.admission.leave();
            self.completed_commands.put(completion);
            self.start_next(completion.time);
        }
    }
}

impl DiskModel for SimpleDisk {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn queue_depth(&self) -> usize {
        self.queue_depth
    }

    fn submit(&mut self, now: Time, command: Command) {
        assert_on_disk(&command, self.capacity);
        self.catch_up(now);
        self.admission.arrive(command);
        self.start_next(self.now);
    }

    fn next_event(&self) -> Option<Time> {
        let first = self.in_service.front();
        let served = first.map_or(Time::MAX, |completion| completion.time);
        let next = served.min(self.completed_commands.next_time());
        (next < Time::MAX).then_some(next)
    }

    fn advance(&mut self, now: Time, completed: &mut Vec<Completion>) {
        self.catch_up(now);
        self.completed_commands.fetch(completed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: u64, start: u64, length: u64) -> Command {
        let (start, length) = (Sector::new(start), Sectors::new(length));
        Command {
            tag,
            op: DiskOp::Read,
            start,
            length,
            fua: false,
        }
    }

    #[test]
    fn the_formula_is_the_one_of_the_recordings() {
        let mut disk = SimpleDisk::new(Sectors::new(33_554_432), HDD1, 1);
        let mut completed = Vec::new();
        disk.submit(Time::ZERO, read(1, 0, 8)); // where the last one "ended": no move
        disk.submit(Time::ZERO, read(2, 8 + 33_554_432 / 4, 128)); // a quarter of the disk
        disk.advance(Time::MAX, &mut completed);
        assert_eq!(completed[0].time, Time::from_nanos(100_000 + 40_000));
        assert_eq!(completed[1].started, completed[0].time);
        let second = 100_000 + 128 * 5_000 + 4_670_000 + 3_500_000;
        assert_eq!(completed[1].time - completed[1].started, Nanos::new(second));
    }

    #[test]
    fn a_null_disk_answers_at_once() {
        let mut disk = SimpleDisk::new(Sectors::new(100), ServiceTime::Zero, 32);
        let now = Time::from_nanos(77);
        disk.submit(now, read(5, 0, 8));
        assert_eq!(disk.next_event(), Some(now));
        let mut completed = Vec::new();
        disk.advance(now, &mut completed);
        assert_eq!(
            completed,
            [Completion {
                tag: 5,
                started: now,
                time: now
            }]
        );
    }

    #[test]
    #[should_panic(expected = "ends at sector 108, the disk at 100")]
    fn what_lies_beyond_the_end_is_refused() {
        let mut disk = SimpleDisk::new(Sectors::new(100), FIX1, 1);
        disk.submit(Time::ZERO, read(1, 100, 8));
    }
}
