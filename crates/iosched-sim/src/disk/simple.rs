//! Models without mechanics: a rule gives each command's service time, one server takes them as
//! they come.
//!
//! `null` answers at once. `fixed` and `formula` are the two disks on which the kernel traces of
//! this project's validation were recorded (`fix1`, `hdd1`), so that a simulation can be compared
//! with the recording. Left out on purpose: everything else.

use std::collections::VecDeque;

use serde::Deserialize;

use super::admission::{Admission, CompletionQueue};
use super::values::Millis;
use super::{Command, Completion, DiskModel, DiskOp, Interface, assert_on_disk};
use crate::units::{Nanos, Sector, Sectors, Time};

/// How long one command takes.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceTime {
    /// Always the same; if that is nothing, a command is complete when submitted.
    Fixed(Nanos),
    /// By place and length.
    Formula(Formula),
}

/// `overhead + per_sector * length`, and unless it starts where the last one ended
/// `+ positioning + full_stroke * sqrt(distance / capacity)`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Formula {
    /// For every command.
    #[serde(rename = "overhead_ms")]
    pub overhead: Millis,
    /// For each sector.
    #[serde(rename = "per_sector_ms")]
    pub per_sector: Millis,
    /// For leaving the place where the last one ended.
    #[serde(rename = "positioning_ms")]
    pub positioning: Millis,
    /// For moving over the whole disk, besides.
    #[serde(rename = "full_stroke_ms")]
    pub full_stroke: Millis,
}

/// What makes one model without mechanics differ from another: `[simple]` of a model's file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "SimpleKeys")]
pub struct SimpleParameters {
    /// It has no write cache.
    pub interface: Interface,
    /// What a kernel would find in `queue/rotational`.
    pub rotational: bool,
    /// How long a command takes.
    pub rule: ServiceTime,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SimpleKeys {
    rotational: bool,
    service_ms: Option<Millis>,
    formula: Option<Formula>,
}

impl TryFrom<SimpleKeys> for SimpleParameters {
    type Error = &'static str;

    fn try_from(keys: SimpleKeys) -> Result<SimpleParameters, &'static str> {
        Ok(SimpleParameters {
            interface: Interface::default(),
            rotational: keys.rotational,
            rule: match (keys.service_ms, keys.formula) {
                (Some(time), None) => ServiceTime::Fixed(*time),
                (None, Some(formula)) => ServiceTime::Formula(formula),
                _ => return Err("either service_ms or formula is needed"),
            },
        })
    }
}

/// Servers with one rule; each takes the next command that waits for admission. With [`ServiceTime::Formula`] there
/// is one, because there is one place where the last command ended; else as many as the depth.
#[derive(Debug)]
pub(crate) struct SimpleDisk {
    interface: Interface,
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
    /// A disk with this rule.
    pub(crate) fn new(interface: Interface, rule: ServiceTime) -> SimpleDisk {
        let queue_depth = interface.queue_depth;
        let servers = match rule {
            ServiceTime::Formula(_) => 1,
            ServiceTime::Fixed(_) => queue_depth,
        };
        SimpleDisk {
            interface,
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
        match &self.rule {
            ServiceTime::Fixed(time) => *time,
            ServiceTime::Formula(formula) => {
                let transfer = *formula.overhead + *formula.per_sector * command.length.as_u64();
                if command.start == self.last_end {
                    return transfer;
                }
                let distance = command.start.distance(self.last_end).as_u64();
                let share = (distance as f64 / self.interface.capacity.as_u64() as f64).sqrt();
                let full_stroke = formula.full_stroke.as_millis_f64();
                transfer + *formula.positioning + Nanos::from_millis_f64(full_stroke * share)
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
        self.interface.capacity
    }

    fn queue_depth(&self) -> usize {
        self.interface.queue_depth
    }

    fn submit(&mut self, now: Time, command: Command) {
        assert_on_disk(&command, self.interface.capacity);
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
    use crate::disk::{ModelOptions, build};

    fn null(queue_depth: usize) -> SimpleDisk {
        let interface = Interface {
            capacity: Sectors::new(100),
            queue_depth,
            write_cache: false,
        };
        SimpleDisk::new(interface, ServiceTime::Fixed(Nanos::ZERO))
    }

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
        let mut disk = build("formula", &ModelOptions::default()).unwrap();
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
        let mut disk = null(32);
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
        let mut disk = null(1);
        disk.submit(Time::ZERO, read(1, 100, 8));
    }
}
