//! How long each request was in the queue (inserted to issued) and in service (issued to completed).
//!
//! A request is known by what it does and where it begins, which a merge at its front changes: such a
//! one counts as never queued. So does one that a disk without a scheduler gets at once.

use std::collections::BTreeMap;

use iosched_facts::event::{Action, Op, TraceEvent};
use iosched_facts::units::Time;

/// Requests that are remembered: more than any disk holds, so that lost completions do not pile up.
const MOST_REQUESTS: usize = 1 << 16;

/// What a request is known by: whether it reads, and its first sector.
type Key = (bool, u64);

/// The requests of a disk that are under way.
#[derive(Debug, Default)]
pub struct Waits {
    queued: BTreeMap<Key, Time>,
    /// When each was inserted and issued.
    at_disk: BTreeMap<Key, (Time, Time)>,
}

/// What a request took that is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Took {
    /// True for a read, false for a write.
    pub is_read: bool,
    /// Inserted to issued.
    pub queue_ns: u64,
    /// Issued to completed.
    pub service_ns: u64,
}

impl Waits {
    /// Takes an event in, and says what a request took if it completes one.
    pub fn take(&mut self, event: &TraceEvent) -> Option<Took> {
        let op = event.op.filter(|op| *op != Op::Discard)?;
        if event.length.as_u64() == 0 {
            return None; // a flush has no place to be known by
        }
        let key = (op == Op::Read, event.start.as_u64());
        match event.action {
            Action::Inserted => {
                remember(&mut self.queued, key, event.time);
            }
            Action::Issued => {
                let inserted = self.queued.remove(&key).unwrap_or(event.time);
                remember(&mut self.at_disk, key, (inserted, event.time));
            }
            Action::Completed => {
                let (inserted, issued) = self.at_disk.remove(&key)?;
                return Some(Took {
                    is_read: key.0,
                    queue_ns: between(inserted, issued),
                    service_ns: between(issued, event.time),
                });
            }
            _ => {}
        }
        None
    }

    /// Forgets what is under way.
    pub fn clear(&mut self) {
        self.queued.clear();
        self.at_disk.clear();
    }
}

fn between(from: Time, to: Time) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}

fn remember<V>(requests: &mut BTreeMap<Key, V>, key: Key, value: V) {
    if requests.len() >= MOST_REQUESTS {
        requests.clear();
    }
    requests.insert(key, value);
}

#[cfg(test)]
mod tests {
    use iosched_facts::event::ProcessId;
    use iosched_facts::units::{Sector, Sectors};

    use super::*;

    fn event(micros: u64, action: Action, op: Op, start: u64) -> TraceEvent {
        TraceEvent {
            sync_flag: false,
            time: Time::from_nanos(micros * 1000),
            action,
            op: Some(op),
            sync: true,
            meta: false,
            start: Sector::new(start),
            length: Sectors::new(8),
            process: ProcessId(1),
            comm: String::new(),
            priority: None,
            cpu: None,
        }
    }

    #[test]
    fn the_time_of_a_request_is_that_in_the_queue_and_that_in_service() {
        let mut waits = Waits::default();
        let took = [
            (0, Action::Inserted, Op::Read, 100),
            (1000, Action::Issued, Op::Read, 100),
            (1000, Action::Issued, Op::Write, 100), // without a scheduler: never queued
            (4000, Action::Completed, Op::Read, 100),
            (5000, Action::Completed, Op::Write, 100),
            (6000, Action::Completed, Op::Write, 700), // began before we looked
        ];
        let took = took.map(|(micros, action, op, start)| {
            waits
                .take(&event(micros, action, op, start))
                .map(|took| (took.is_read, took.queue_ns, took.service_ns))
        });
        let read = Some((true, 1_000_000, 3_000_000));
        let write = Some((false, 0, 4_000_000));
        assert_eq!(took, [None, None, None, read, write, None]);
    }

    #[test]
    fn lost_completions_do_not_pile_up() {
        let mut waits = Waits::default();
        for start in 0..3 * MOST_REQUESTS as u64 {
            waits.take(&event(start, Action::Issued, Op::Read, start));
        }
        assert!(waits.at_disk.len() <= MOST_REQUESTS);
    }
}
