//! Who asked: what the kernel's events tell of each access before it reaches the server.
//!
//! Below a loop device and FUSE it is lost who asked for what. The loop device's own block events still know:
//! each bio is told, with the process that submitted it, before the access that it becomes part of arrives
//! here; and each request with its I/O priority when it is issued (from Linux 6.2). An access is matched with
//! them by what it does and where. What was merged in a plug belongs to its first bio, as in the kernel. That
//! a write is fsync's, after which no other is to be waited for, is not told: it counts as one of direct I/O.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use iosched_machine::capture::{DeviceNumber, Events, Recorder};
use iosched_machine::failure::Problem;
use iosched_sim::disk::DiskOp;
use iosched_sim::request::{IoPriority, Op};
use iosched_sim::serve::Asker;
use iosched_sim::trace::kernel::{Action, Line, Remark, TraceEvent};
use iosched_sim::units::{Sector, Sectors};
use serde::{Deserialize, Serialize};

use super::engine::Job;
use super::log::log;

/// Bios that are remembered; of older ones nothing comes any more.
const MOST_BIOS: usize = 1 << 16;

/// Bios are taken together up to this length in sectors.
const LONGEST: u64 = 2048;

/// The events of an access are there before it is; but a processor that just begins another page of them gives
/// none for a moment. So often they are looked for.
const READS: u32 = 4;
const AGAIN_AFTER: Duration = Duration::from_micros(20);

/// Accesses that nobody is known to have asked for are named in the log up to so many.
const MOST_LOGGED: u64 = 32;

/// How many accesses have been told whose they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributed {
    /// Those whose process is known.
    pub known: u64,
    /// Those for which no event was found: they count as a kernel thread's.
    pub unknown: u64,
    /// Why none is known, if this machine cannot tell: all count as one process's.
    pub why_not: Option<String>,
}

/// A place among the bios: what it does, its first sector, and how many came before it.
type Key = (u8, u64, u64);

/// Bios on their way here, by what events tell of them. Those of one process that follow one another on the
/// disk are one, up to a length: a page cache is written in bios of a block each.
#[derive(Debug, Default)]
struct Bios {
    /// Each with the sector behind its last, and whose it is.
    all: BTreeMap<Key, (u64, Asker)>,
    /// From the oldest on; some may be gone.
    order: VecDeque<Key>,
    last: Option<Key>,
    count: u64,
    /// Sectors of the longest that there was of each operation.
    longest: [u64; 3],
}

struct Core {
    recorder: Option<Recorder>,
    lines: Vec<Line>,
    bios: Bios,
    exits: Vec<u32>,
    counts: Attributed,
}

pub(super) struct Attribution(Mutex<Core>);

impl Attribution {
    /// That of a loop device's accesses; without tracing, everything is one process's.
    pub(super) fn of(device: Result<DeviceNumber, Problem>) -> Attribution {
        let events = [Events::Asked, Events::Exits];
        let recorder = device.and_then(|device| Recorder::start(device, &events));
        let why_not = recorder.as_ref().err().map(ToString::to_string);
        if let Some(why) = &why_not {
            log(format_args!("everything is one process: {why}"));
        }
        Attribution(Mutex::new(Core {
            recorder: recorder.ok(),
            lines: Vec::new(),
            bios: Bios::default(),
            exits: Vec::new(),
            counts: Attributed {
                why_not,
                ..Attributed::default()
            },
        }))
    }

    /// Who asked for this, and which processes have ended since the last one asked.
    pub(super) fn ask(&self, job: Job) -> (Asker, Vec<u32>) {
        let mut core = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asker = core.ask(job);
        (asker, std::mem::take(&mut core.exits))
    }

    /// Asks nobody any more: the tracing instance goes.
    pub(super) fn end(&self) {
        let mut core = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        core.recorder = None;
    }

    pub(super) fn counts(&self) -> Attributed {
        let core = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        core.counts.clone()
    }
}

impl Core {
    fn ask(&mut self, job: Job) -> Asker {
        let unknown = Asker::unknown(job.op);
        let op = match job.op {
            DiskOp::Read => Op::Read,
            DiskOp::Write => Op::Write,
            DiskOp::Discard => Op::Discard,
            DiskOp::Flush => return unknown, // belongs to all who wait for it
        };
        let mut found = self.bios.take(op, job.start, job.length);
        for attempt in 0..READS {
            if found.is_some() || self.recorder.is_none() {
                break;
            }
            if attempt > 0 {
                std::thread::sleep(AGAIN_AFTER);
            }
            self.read();
            found = self.bios.take(op, job.start, job.length);
        }
        match found {
            Some(_) => self.counts.known += 1,
            None => self.counts.unknown += 1,
        }
        if found.is_none() && self.counts.unknown <= MOST_LOGGED {
            log(format_args!("nobody is known who asked for {job:?}"));
        }
        found.unwrap_or(unknown)
    }

    /// Takes what the kernel has told since.
    fn read(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if let Err(error) = recorder.take(&mut self.lines) {
            log(format_args!("no events any more: {error}"));
            self.counts.why_not = Some(error.to_string());
            self.recorder = None;
        }
        for line in self.lines.drain(..) {
            match line {
                Line::Event(event) => self.bios.told(&event),
                Line::Remark(Remark::Exit { process, .. }) => self.exits.push(process.0),
                Line::Remark(_) => {}
            }
        }
    }
}

impl Bios {
    fn told(&mut self, event: &TraceEvent) {
        if event.length == Sectors::ZERO {
            return; // a flush
        }
        // That zeros are to be written is neither a read nor a write to blktrace; here it makes a hole.
        let op = event.op.unwrap_or(Op::Discard);
        let (start, end) = (event.start.as_u64(), (event.start + event.length).as_u64());
        match event.action {
            Action::Queued => {
                let asker = Asker {
                    process: event.process.0,
                    priority: IoPriority::default(),
                    sync: if event.op == Some(Op::Read) {
                        event.sync_flag
                    } else {
                        event.sync
                    },
                    noidle: false,
                    prio: event.meta && op == Op::Read,
                };
                self.add(op, (start, end), asker);
            }
            Action::Issued => {
                let Some(priority) = event.priority else {
                    return; // before Linux 6.2
                };
                let part = (number(op), start, 0)..(number(op), end, 0);
                for (_, asker) in self.all.range_mut(part).map(|(_, bio)| bio) {
                    asker.priority = priority;
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, op: Op, (start, end): (u64, u64), asker: Asker) {
        let continued = self.last.filter(|last| last.0 == number(op));
        if let Some(last) = continued
            && let Some((last_end, its)) = self.all.get_mut(&last)
            && *last_end == start
            && *its == asker
            && end - last.1 <= LONGEST
        {
            *last_end = end;
            self.note_length(last, end);
            return;
        }
        self.count += 1;
        let key = (number(op), start, self.count);
        self.insert(key, end, asker);
        self.last = Some(key);
        while self.all.len() > MOST_BIOS
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    fn insert(&mut self, key: Key, end: u64, asker: Asker) {
        self.all.insert(key, (end, asker));
        self.note_length(key, end);
        self.order.push_back(key);
        if self.order.len() > 4 * MOST_BIOS {
            self.order.retain(|key| self.all.contains_key(key));
        }
    }

    fn note_length(&mut self, key: Key, end: u64) {
        let longest = &mut self.longest[usize::from(key.0)];
        *longest = (*longest).max(end - key.1);
    }

    /// Who asked for the access that begins here: its first bio's. Bios are used up by what they become part
    /// of, the older one of two at the same place first.
    fn take(&mut self, op: Op, start: Sector, length: Sectors) -> Option<Asker> {
        let (start, end) = (start.as_u64(), (start + length).as_u64());
        let kind = number(op);
        let earliest = start.saturating_sub(self.longest[usize::from(kind)]);
        let near = self.all.range((kind, earliest, 0)..(kind, end, 0));
        let touched = near.filter(|(_, (bio_end, _))| *bio_end > start);
        let mut touched: Vec<_> = touched
            .map(|(&key, &(end, asker))| (key, end, asker))
            .collect();
        touched.sort_unstable_by_key(|((_, _, count), ..)| *count);
        let first = touched
            .iter()
            .find(|((_, bio_start, _), ..)| *bio_start <= start);
        let asker = first?.2;
        let mut left = end - start;
        for (key, bio_end, asker) in touched {
            let (_, bio_start, count) = key;
            let from = bio_start.max(start);
            let to = bio_end.min(end).min(from + left);
            if to <= from {
                continue; // the same place once more
            }
            left -= to - from;
            self.all.remove(&key);
            // What of it comes in other accesses, sooner or later than this one.
            for (start, end) in [(bio_start, from), (to, bio_end)] {
                if start < end {
                    self.insert((kind, start, count), end, asker);
                }
            }
        }
        Some(asker)
    }
}

/// Operations in an order.
fn number(op: Op) -> u8 {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
    }
}

#[cfg(test)]
mod tests {
    use iosched_sim::request::{PriorityClass, ProcessId};
    use iosched_sim::units::Time;

    use super::*;

    fn event(action: Action, op: Op, start: u64, length: u64, process: u32) -> TraceEvent {
        TraceEvent {
            time: Time::ZERO,
            action,
            op: Some(op),
            sync: false,
            sync_flag: false,
            meta: false,
            start: Sector::new(start),
            length: Sectors::new(length),
            process: ProcessId(process),
            comm: String::new(),
            priority: None,
            cpu: None,
        }
    }

    fn process_of(bios: &mut Bios, op: Op, start: u64, length: u64) -> Option<u32> {
        let asker = bios.take(op, Sector::new(start), Sectors::new(length));
        asker.map(|asker| asker.process)
    }

    #[test]
    fn an_access_belongs_to_the_process_of_its_first_bio() {
        let mut bios = Bios::default();
        for (start, process) in [(8, 11), (16, 11), (100, 12), (24, 11)] {
            bios.told(&event(Action::Queued, Op::Write, start, 8, process));
        }
        assert_eq!(process_of(&mut bios, Op::Read, 8, 8), None, "it is a write");
        assert_eq!(process_of(&mut bios, Op::Write, 8, 24), Some(11));
        assert_eq!(
            process_of(&mut bios, Op::Write, 16, 8),
            None,
            "it was part of that"
        );
        assert_eq!(process_of(&mut bios, Op::Write, 100, 8), Some(12));
        assert!(bios.all.is_empty());
    }

    #[test]
    fn a_bio_that_was_split_is_told_of_each_part_and_one_place_may_be_asked_for_twice() {
        let mut bios = Bios::default();
        bios.told(&event(Action::Queued, Op::Read, 0, 4096, 21));
        bios.told(&event(Action::Queued, Op::Read, 0, 8, 22));
        // The middle first: two threads take requests.
        assert_eq!(process_of(&mut bios, Op::Read, 1024, 1024), Some(21));
        assert_eq!(process_of(&mut bios, Op::Read, 0, 1024), Some(21));
        assert_eq!(process_of(&mut bios, Op::Read, 2048, 2048), Some(21));
        assert_eq!(process_of(&mut bios, Op::Read, 0, 8), Some(22));
        assert_eq!(process_of(&mut bios, Op::Read, 0, 8), None);
    }

    #[test]
    fn a_request_tells_the_priority_of_its_bios() {
        let mut bios = Bios::default();
        bios.told(&event(Action::Queued, Op::Read, 8, 8, 31));
        bios.told(&event(Action::Queued, Op::Read, 64, 8, 32));
        let idle = IoPriority {
            class: PriorityClass::Idle,
            level: 7,
        };
        bios.told(&TraceEvent {
            priority: Some(idle),
            ..event(Action::Issued, Op::Read, 8, 8, 900)
        });
        let take =
            |bios: &mut Bios, start| bios.take(Op::Read, Sector::new(start), Sectors::new(8));
        assert_eq!(take(&mut bios, 8).unwrap().priority, idle);
        assert_eq!(take(&mut bios, 64).unwrap().priority, IoPriority::default());
    }

    #[test]
    fn the_blocks_of_a_file_that_follow_one_another_are_taken_together() {
        let mut bios = Bios::default();
        for block in 0..2 * LONGEST / 8 {
            bios.told(&event(Action::Queued, Op::Write, block * 8, 8, 51));
        }
        assert_eq!(bios.all.len(), 2);
        for request in [1, 0, 3, 2] {
            assert_eq!(
                process_of(&mut bios, Op::Write, request * 1024, 1024),
                Some(51)
            );
        }
        assert!(bios.all.is_empty());
    }

    #[test]
    fn what_never_arrives_is_forgotten() {
        let mut bios = Bios::default();
        for start in 0..2 * MOST_BIOS as u64 {
            bios.told(&event(Action::Queued, Op::Read, start * 16, 8, 41));
        }
        assert_eq!(bios.all.len(), MOST_BIOS);
        assert_eq!(process_of(&mut bios, Op::Read, 0, 8), None);
    }
}
