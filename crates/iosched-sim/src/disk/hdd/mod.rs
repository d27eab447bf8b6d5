//! Hard disks: an arm, a turning platter, and the electronics before them.
//!
//! A command first passes the electronics (overhead). A read whose data are in the buffer, and a
//! write that the cache takes, then need only the link. All others wait for the arm, which serves
//! them as they came or the soonest reachable first ([`DriveQueue`](super::DriveQueue)); their data pass the link while
//! the medium delivers or takes them. While no command waits for the arm, the drive reads on behind
//! the last read, so that a sequential reader runs at the speed of the medium; and, after a moment
//! of rest, writes back its cache, soonest reachable first. A cache above its mark, or with data
//! above their age, is written back in turn with commands; a flush has the arm for itself until what
//! was acknowledged before it is on the medium.
//!
//! The angle of the platter is a function of time alone, positions are computed from the layout
//! (`geometry`), moves from the seek curve (`seek`), both put together in `mechanics`; `arm` decides
//! what is next, `stream` reads on, `read_buffer` and `write_cache` are the drive's memory.
//!
//! Left out: retries, reallocated and slipped sectors, thermal recalibration, servo misses; commands
//! that partly lie in the buffer count as not there, except those that continue the stream being
//! read.

mod arm;

mod geometry;
mod layout;
mod mechanics;
mod parameters;
mod reach;
mod read_buffer;
pub mod seek;
mod stream;
#[cfg(test)]
mod tests;
mod turn;
mod write_cache;

use std::collections::VecDeque;

use arm::Work;

use geometry::{PlatterPosition, Spot};
use mechanics::{Mechanics, Pace};
pub use parameters::*;
use read_buffer::ReadBuffer;
use stream::Stream;
use turn::Angle;
use write_cache::WriteCache;

use super::admission::{Admission, CompletionQueue};
use super::{Command, Completion, DiskModel, DiskOp, Millis, assert_on_disk};
use crate::event_queue::{EventQueue, Key, Planned};
use crate::random::Random;
use crate::units::{Bytes, Nanos, Sector, Sectors, Time};

/// The longest piece of the cache that is written back in one go, so that a read need not wait for
/// more.
const DESTAGE_PIECE: Bytes = Bytes::from_mib(1);

/// What the arm is to do with the sectors that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HddEvent {
    /// A command for the arm passed the electronics, while the arm had nothing to do.
    Ready,
    /// A flush passed the electronics.
    FlushReady(usize),
    ArmDone,
    /// A rest of the arm is over.
    Rested,
    /// A command is done (for a cached write: its data are in the cache).
    Done(usize),
}

/// Lines of the event queue.
const DONE: usize = 0;
const ARM_DONE: usize = 1;
const LINES: usize = 2;

impl Planned for HddEvent {
    fn line(&self) -> Option<usize> {
        match self {
            HddEvent::Done(_) => Some(DONE),
            HddEvent::ArmDone => Some(ARM_DONE),
            HddEvent::Ready | HddEvent::FlushReady(_) | HddEvent::Rested => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    command: Command,
    place: PlatterPosition,
    /// When it entered the drive.
    entered: Time,
    started: Time,
    /// When a write's data begin to come.
    data_from: Time,
    /// A flush passed the electronics.
    ready: bool,
    /// A write for which room is kept in the cache.
    cached: bool,
    /// There is a command in it.
    used: bool,
}

impl Slot {
    fn empty(place: PlatterPosition) -> Slot {
        Slot {
            command: Command {
                tag: 0,
                op: DiskOp::Read,
                start: Sector::ZERO,
                length: Sectors::ZERO,
                fua: false,
            },
            place,
            entered: Time::ZERO,
            started: Time::ZERO,
            data_from: Time::ZERO,
            ready: false,
            cached: false,
            used: false,
        }
    }
}

/// A command that needs the arm: what the choice among them looks at.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    slot: usize,
    spot: Spot,
    access: Access,
    /// [`HddEvent::Ready`] is planned for it. While the arm is at work that would have no effect.
    announced: bool,
    entered: Time,
    /// When it has passed the electronics.
    ready: Key,
}

/// A hard disk.
#[derive(Debug)]
pub(crate) struct Hdd {
    parameters: HddParameters,
    mechanics: Mechanics,
    read_pace: Pace,
    write_pace: Pace,
    admission: Admission,
    event_queue: EventQueue<HddEvent, LINES>,
    completed_commands: CompletionQueue,
    slots: Vec<Slot>,
    free_slots: Vec<usize>,
    /// Commands for the arm, in order of arrival.
    for_arm: Vec<Waiting>,
    /// Writes that wait for room in the cache.
    stalled: VecDeque<usize>,
    /// Flushes with the number that all writes they wait for are below.
    flushes: Vec<(usize, u64)>,
    read_buffer: ReadBuffer,
    cache: WriteCache,
    work: Option<Work>,
    stream: Option<Stream>,
    /// The end of the last command that was taken up, if it was a write.
    last_write_end: Option<Sector>,
    /// The last command that completed was a write.
    wrote_last: bool,
    /// The arm's last work was writing back.
    destaged_last: bool,
    /// Since when the arm has nothing to do.
    resting_since: Time,
    rest_planned: bool,
    link_free: Time,
    /// The least time in which a sector passes.
    quickest: Nanos,
    now: Time,
}

impl Hdd {
    /// A drive as described, at rest, its platter at an angle drawn from the seed.
    ///
    /// # Panics
    /// If the parameters describe no drive (no surface, no zone, a track switch shorter than the
    /// seek over one cylinder).
    pub(crate) fn new(parameters: HddParameters, seed: u64) -> Hdd {
        assert!(
            parameters.surfaces > 0 && parameters.cylinders() > 0,
            "a drive without platters"
        );
        assert!(
            parameters.interface.queue_depth > 0,
            "a drive without a queue"
        );
        if let Err(why) = parameters.check() {
            panic!("no drive: {why}");
        }
        let phase = u32::try_from(Random::new(seed, "hdd angle").next_u64() >> 32);
        let depth = parameters.interface.queue_depth;
        let (reading, writing) = (&parameters.reading, &parameters.writing);
        let mechanics = Mechanics::new(&parameters, Angle(phase.expect("the upper half")));
        Hdd {
            quickest: mechanics.quickest_sector(),
            read_pace: Pace::new(parameters.link.0),
            write_pace: Pace::new(parameters.link_write.unwrap_or(parameters.link).0),
            admission: Admission::new(depth),
            event_queue: EventQueue::default(),
            completed_commands: CompletionQueue::default(),
            slots: vec![Slot::empty(mechanics.place(Sector::ZERO)); depth],
            free_slots: (0..depth).rev().collect(),
            for_arm: Vec::with_capacity(depth),
            stalled: VecDeque::with_capacity(depth),
            flushes: Vec::with_capacity(depth),
            read_buffer: ReadBuffer::new(reading.segments, reading.segment.to_sectors()),
            cache: WriteCache::new(
                writing.cache.to_sectors(),
                writing.cache_stretches,
                DESTAGE_PIECE.to_sectors() * 2,
            ),
            work: None,
            stream: None,
            last_write_end: None,
            wrote_last: false,
            destaged_last: false,
            resting_since: Time::ZERO,
            rest_planned: false,
            link_free: Time::ZERO,
            now: Time::ZERO,
            mechanics,
            parameters,
        }
    }

    #[inline]
    fn slot(&self, slot: usize) -> &Slot {
        let slot = &self.slots[slot];
        assert!(slot.used, "the event queue names slots in use");
        slot
    }

    #[inline]
    fn slot_mut(&mut self, slot: usize) -> &mut Slot {
        let slot = &mut self.slots[slot];
        assert!(slot.used, "the event queue names slots in use");
        slot
    }

    fn enter(&mut self, now: Time) {
        while let Some(command) = self.admission.enter() {
            self.take_in(now, &command);
        }
    }

    fn take_in(&mut self, now: Time, command: &Command) {
        let slot = self.free_slots.pop();
        let slot = slot.expect("as many slots as the admission lets in");
        let start = match command.op {
            DiskOp::Read | DiskOp::Write => command.start,
            DiskOp::Flush | DiskOp::Discard => Sector::ZERO,
        };
        self.slots[slot] = Slot {
            command: *command,
            place: self.mechanics.place_in_line(start),
            entered: now,
            started: now,
            data_from: now,
            ready: false,
            cached: false,
            used: true,
        };
        self.take_up(now, slot, command);
    }

    /// A time of the electronics, which depends on the command that completed last.
    fn overhead(&self, time: Millis, after_write: Option<Millis>) -> Nanos {
        *after_write.filter(|_| self.wrote_last).unwrap_or(time)
    }

    fn take_up(&mut self, now: Time, slot: usize, command: &Command) {
        let last_write_end = self.last_write_end.take();
        if command.op == DiskOp::Read {
            self.take_up_read(now, slot, command);
        } else {
            self.take_up_other(now, slot, command, last_write_end);
        }
    }

    #[inline(never)]
    fn take_up_other(
        &mut self,
        now: Time,
        slot: usize,
        command: &Command,
        last_write_end: Option<Sector>,
    ) {
        let overheads = self.parameters.overheads;
        match command.op {
            DiskOp::Read => unreachable!("reads are taken up elsewhere"),
            DiskOp::Write => {
                self.read_buffer.forget(command.start, command.end());
                let cacheable = command.length <= self.cache.capacity();
                if self.parameters.interface.write_cache && cacheable && !command.fua {
                    self.stalled.push_back(slot);
                    self.take_into_cache(now);
                } else {
                    let scattered = last_write_end.is_some_and(|end| end != command.start);
                    self.take_up_write(now, slot, scattered);
                }
                self.last_write_end = Some(command.end());
            }
            DiskOp::Flush => {
                self.flushes.push((slot, self.cache.next_number()));
                let ready =
                    now + self.overhead(overheads.write_hit, overheads.write_hit_after_write);
                self.event_queue.plan(ready, HddEvent::FlushReady(slot));
            }
            DiskOp::Discard => {
                let done =
                    now + self.overhead(overheads.write_hit, overheads.write_hit_after_write);
                self.event_queue.plan(done, HddEvent::Done(slot));
            }
        }
    }

    fn take_up_read(&mut self, now: Time, slot: usize, command: &Command) {
        let overheads = self.parameters.overheads;
        self.settle_stream(now);
        if self.in_memory(command) {
            self.keep_reading(now, command);
            let ready = now
                + self.overhead(overheads.read_hit, overheads.read_hit_after_write)
                + *overheads.data_preparation;
            self.send_from_memory(ready, slot);
        } else if self.begins_in_stream(command) {
            let ready = now + self.overhead(overheads.read_hit, overheads.read_hit_after_write);
            self.queue_for_arm(ready, slot);
        } else {
            let ready = now + self.overhead(overheads.read_miss, overheads.read_miss_after_write);
            self.queue_for_arm(ready, slot);
        }
    }

    /// A write that goes to the medium: its data come while the arm is on its way.
    fn take_up_write(&mut self, now: Time, slot: usize, scattered: bool) {
        let overheads = self.parameters.overheads;
        let times = overheads
            .scattered_write_arm
            .zip(overheads.scattered_write_data);
        let (to_arm, to_data) = if let Some((arm, data)) = times.filter(|_| scattered) {
            (*arm, *data)
        } else {
            let miss = self.overhead(overheads.write_miss, overheads.write_miss_after_write);
            (miss, miss + *overheads.data_preparation)
        };
        let data_from = self.link_free.max(now + to_data);
        self.link_free = data_from + self.write_pace.time(self.slot(slot).command.length);
        self.slot_mut(slot).data_from = data_from;
        self.queue_for_arm(now + to_arm, slot);
    }

    fn in_memory(&mut self, command: &Command) -> bool {
        let (start, end) = (command.start, command.end());
        self.read_buffer.holds(start, end) || self.cache.holds(start, end)
    }

    #[inline(always)]
    fn queue_for_arm(&mut self, ready: Time, slot: usize) {
        let &Slot {
            command,
            place,
            entered,
            ..
        } = self.slot(slot);
        let ready = self.event_queue.reserve(ready);
        self.for_arm.push(Waiting {
            slot,
            spot: place.spot,
            access: match command.op {
                DiskOp::Write => Access::Write,
                _ => Access::Read,
            },
            announced: false,
            entered,
            ready,
        });
        if self.work.is_none() {
            self.announce_ready();
        }
    }

    /// The arm has nothing to do until one of these is ready.
    #[inline(never)]
    fn announce_ready(&mut self) {
        for waiting in self.for_arm.iter_mut().filter(|waiting| !waiting.announced) {
            waiting.announced = true;
            self.event_queue.plan_at(waiting.ready, HddEvent::Ready);
        }
    }

    /// From the buffer to the host; the link carries one command's data at a time.
    #[inline(never)]
    fn send_from_memory(&mut self, ready: Time, slot: usize) {
        let length = self.slot(slot).command.length;
        self.link_free = self.link_free.max(ready) + self.read_pace.time(length);
        let done = self.link_free + *self.parameters.overheads.read_completion;
        self.event_queue.plan(done, HddEvent::Done(slot));
    }

    /// Writes go into the cache as they came, while there is room.
    fn take_into_cache(&mut self, now: Time) {
        let overheads = self.parameters.overheads;
        while let Some(&slot) = self.stalled.front() {
            let length = self.slot(slot).command.length;
            if !self.cache.reserve(length) {
                return;
            }
            self.stalled.pop_front();
            self.slot_mut(slot).cached = true;
            let ready = now
                + self.overhead(overheads.write_hit, overheads.write_hit_after_write)
                + *overheads.data_preparation;
            self.link_free = self.link_free.max(ready) + self.write_pace.time(length);
            let done = self.link_free + *overheads.write_completion;
            self.event_queue.plan(done, HddEvent::Done(slot));
        }
    }

    #[inline(always)]
    fn complete(&mut self, now: Time, slot: usize) {
        let &Slot {
            command,
            place,
            started,
            cached,
            ..
        } = self.slot(slot);
        self.slots[slot].used = false;
        if cached {
            self.keep_in_cache(now, &command, place);
        }
        self.wrote_last = matches!(command.op, DiskOp::Write);
        self.free_slots.push(slot);
        self.admission.leave();
        self.completed_commands.put(Completion {
            tag: command.tag,
            started,
            time: now,
        });
        self.enter(now);
    }

    /// A write's data are in the cache.
    #[inline(never)]
    fn keep_in_cache(&mut self, now: Time, command: &Command, place: PlatterPosition) {
        // The youngest flush's number: whatever any flush waits for must not grow.
        let barrier = self.flushes.iter().map(|&(_, number)| number).max();
        let (start, end) = (command.start, command.end());
        self.cache.take(start, end, place, now, barrier);
        self.take_into_cache(now);
    }

    fn happen(&mut self, now: Key, event: HddEvent) {
        match event {
            HddEvent::Done(slot) => self.complete(now.time(), slot),
            HddEvent::ArmDone => self.arm_done(now.time()),
            HddEvent::Ready => {}
            HddEvent::FlushReady(slot) => self.slot_mut(slot).ready = true,
            HddEvent::Rested => self.rest_planned = false,
        }
        if self.work.is_none() {
            self.direct_arm(now);
        }
    }

    fn catch_up(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some((key, event)) = self.event_queue.take_due(self.now) {
            self.happen(key, event);
        }
    }

    /// Before this nothing completes; [`Time::MAX`] if nothing is to happen.
    fn next_effect(&self) -> Time {
        let Some(work) = &self.work else {
            return self.event_queue.next_time();
        };
        let done = self.event_queue.next_time_in(DONE);
        let arm = self.event_queue.next_time_in(ARM_DONE);
        let read = match work {
            Work::Read(read) if self.flushes.is_empty() => self.completion_of(read),
            _ => arm,
        };
        // What the arm does after a read ends when a sector more has passed, at the earliest.
        let arm = if read <= arm + self.quickest {
            arm.max(read)
        } else {
            arm
        };
        done.min(arm).min(self.event_queue.next_other_time())
    }

    /// Acknowledged and not yet on the medium.
    #[cfg(test)]
    pub(super) fn dirty(&self) -> Sectors {
        self.cache.held()
    }

    /// Numbers of the acknowledged writes that are in the cache or being written back.
    #[cfg(test)]
    pub(super) fn dirty_numbers(&self) -> impl Iterator<Item = u64> {
        let at_work = match &self.work {
            Some(Work::Destage(dirty)) => Some(dirty.number),
            _ => None,
        };
        self.cache
            .stretches()
            .iter()
            .map(|dirty| dirty.number)
            .chain(at_work)
    }

    /// How many writes were acknowledged in the cache.
    #[cfg(test)]
    pub(super) fn acknowledged(&self) -> u64 {
        self.cache.next_number()
    }
}

impl DiskModel for Hdd {
    fn capacity(&self) -> Sectors {
        self.parameters.interface.capacity
    }

    fn queue_depth(&self) -> usize {
        self.admission.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        assert_on_disk(&command, self.parameters.interface.capacity);
        self.catch_up(now);
        if self.admission.passes() {
            self.take_in(self.now, &command);
        } else {
            self.admission.arrive(command);
        }
    }

    fn next_event(&self) -> Option<Time> {
        let next = self.completed_commands.next_time().min(self.next_effect());
        (next < Time::MAX).then_some(next)
    }

    fn advance(&mut self, now: Time, completed: &mut Vec<Completion>) {
        self.catch_up(now);
        self.completed_commands.fetch(completed);
    }
}
