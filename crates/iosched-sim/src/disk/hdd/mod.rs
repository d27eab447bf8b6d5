//! Hard disks: an arm, a turning platter, and the electronics before them.
//!
//! A command first passes the electronics (overhead). A read whose data are in the buffer, and a
//! write that the cache takes, then need only the link. All others wait for the arm, which serves
//! them as they came or the soonest reachable first ([`DriveQueue`]). While no command waits for the
//! arm, the drive reads on behind the last read, so that a sequential reader runs at the speed of
//! the medium; and, after a moment of rest, writes back its cache, soonest reachable first. A cache
//! above its mark, or with data above their age, is written back in turn with commands; a flush
//! has the arm for itself until what was acknowledged before it is on the medium.
//!
//! The angle of the platter is a function of time alone, positions are computed from the layout
//! (`geometry`), moves from the seek curve (`seek`).
//!
//! Left out: retries, reallocated sectors, thermal recalibration, servo misses; reading a track from
//! the middle of the request (zero-latency access); commands that partly lie in the buffer count as
//! not there, except those that continue the stream being read.

mod buffer;
mod geometry;
pub mod seek;

use std::collections::VecDeque;

use buffer::{Dirty, ReadBuffer, WriteCache};
use geometry::{Angle, Geometry, Place, Spindle, passing_time};
use seek::{Scale, SeekCurve};

use super::door::{Agenda, Door, Tray, earlier};
use super::{Command, Completion, DiskModel, DiskOp, DriveQueue, assert_on_disk, transfer_time};
use crate::random::Random;
use crate::units::{Bytes, Nanos, Sector, Sectors, Time};

/// How close behind the head a sector may begin and still be caught: rounding, not mechanics.
const TOLERANCE: Nanos = Nanos::from_micros(2);

/// Cylinders with the same number of sectors on each track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneSpec {
    /// How many cylinders; on a drive made smaller, the zone's share of them.
    pub cylinders: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
}

/// The zones of a drive, from the outside to the inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zones {
    /// Zones of equal width, sectors per track falling evenly.
    Even {
        /// How many zones.
        count: u32,
        /// Sectors per track in the first.
        outer: u32,
        /// Sectors per track in the last.
        inner: u32,
    },
    /// As listed.
    Table(Vec<ZoneSpec>),
}

impl Zones {
    fn list(&self) -> Vec<ZoneSpec> {
        match self {
            Zones::Table(zones) => zones.clone(),
            &Zones::Even {
                count,
                outer,
                inner,
            } => (0..count)
                .map(|index| ZoneSpec {
                    cylinders: 1,
                    sectors_per_track: outer - (outer - inner) * index / (count - 1).max(1),
                })
                .collect(),
        }
    }
}

/// What the electronics take for a command, besides the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overheads {
    /// A read that the buffer answers.
    pub read_hit: Nanos,
    /// A read that the arm has to fetch.
    pub read_miss: Nanos,
    /// A write that the cache takes.
    pub write_hit: Nanos,
    /// A write that goes to the medium.
    pub write_miss: Nanos,
}

/// What makes one hard disk differ from another.
#[derive(Debug, Clone, PartialEq)]
pub struct HddParameters {
    /// Size. Cylinders follow from it.
    pub capacity: Sectors,
    /// Turns per minute.
    pub rpm: u32,
    /// Surfaces in use.
    pub surfaces: u32,
    /// Cylinders of the drive in its nominal size: what the seek curve and the band refer to.
    pub cylinders: u32,
    /// Cylinders in a band of the serpentine layout; 1 for the classic one.
    pub band: u32,
    /// Zones, outside first.
    pub zones: Zones,
    /// Time of a read seek by distance.
    pub seek: SeekCurve,
    /// What settling on a track for writing takes longer, in moves over more than one cylinder.
    pub write_settle: Nanos,
    /// Change of surface without a move; also the skew between surfaces.
    pub head_switch: Nanos,
    /// Skew between tracks of a surface: at least one cylinder's seek.
    pub track_switch: Nanos,
    /// Times of the electronics.
    pub overheads: Overheads,
    /// Rate of the link to the host, bytes per second.
    pub link: u64,
    /// Commands taken at a time.
    pub queue_depth: usize,
    /// Order of those that need the arm.
    pub order: DriveQueue,
    /// With [`DriveQueue::ShortestAccessFirst`], none waits longer than this while others pass.
    pub age_limit: Nanos,
    /// Read segments.
    pub segments: usize,
    /// Length of one.
    pub segment: Bytes,
    /// How far the drive reads on behind a read.
    pub read_ahead: Bytes,
    /// Writes are acknowledged in the cache.
    pub write_cache: bool,
    /// Room in the cache.
    pub cache: Bytes,
    /// Separate stretches that it can hold.
    pub cache_stretches: usize,
    /// Rest before the cache is written back.
    pub destage_delay: Nanos,
    /// Data older than this are written back in turn with commands.
    pub destage_age: Nanos,
}

impl HddParameters {
    /// Time of one turn.
    pub fn turn(&self) -> Nanos {
        Nanos::new(60_000_000_000 / u64::from(self.rpm))
    }
}

/// The longest piece of the cache that is written back in one go, so that a read need not wait for
/// more.
const DESTAGE_PIECE: Bytes = Bytes::from_mib(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A command passed the electronics and can be served by the arm.
    Ready(usize),
    /// The arm is done.
    ArmDone,
    /// Look whether the arm has something to do: a rest is over.
    Look,
    /// A command is done (for a cached write: its data are in the cache).
    Done(usize),
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    command: Command,
    place: Place,
    /// When it entered the drive.
    entered: Time,
    started: Time,
    /// Passed the electronics.
    ready: bool,
    /// A write for which room is kept in the cache.
    cached: bool,
}

/// What the arm is doing.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Reading for a command, from this sector on (what lies before it is in the buffer).
    Read(usize, Sector),
    /// Writing for a command.
    Write(usize),
    /// Writing back this stretch.
    Destage(Dirty),
}

/// Reading on behind the last read.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The next sector to come; all before it, back to the beginning of its segment, are there.
    next: Sector,
    /// When the head is in place to wait for it.
    ready: Time,
    /// Where reading on ends.
    limit: Sector,
}

/// See the [module's page](self).
#[derive(Debug)]
pub struct Hdd {
    parameters: HddParameters,
    geometry: Geometry,
    spindle: Spindle,
    scale: Scale,
    door: Door,
    agenda: Agenda<Event>,
    tray: Tray,
    slots: Vec<Option<Slot>>,
    free_slots: Vec<usize>,
    /// Commands for the arm, in order of arrival.
    for_arm: Vec<usize>,
    /// Writes that wait for room in the cache.
    stalled: VecDeque<usize>,
    /// Flushes with the number that all writes they wait for are below.
    flushes: Vec<(usize, u64)>,
    read_buffer: ReadBuffer,
    cache: WriteCache,
    work: Option<Work>,
    stream: Option<Stream>,
    /// Where the heads are (while the arm works: where they will be).
    cylinder: u32,
    head: u32,
    /// The arm's last work was writing back.
    destaged_last: bool,
    /// Since when the arm has nothing to do.
    resting_since: Time,
    look_planned: bool,
    link_free: Time,
    now: Time,
}

impl Hdd {
    /// A drive as described, at rest, its platter at an angle drawn from the seed.
    ///
    /// # Panics
    /// If the parameters describe no drive (no surface, no zone, a track switch shorter than the
    /// seek over one cylinder).
    pub fn new(parameters: HddParameters, seed: u64) -> Hdd {
        assert!(
            parameters.surfaces > 0 && parameters.cylinders > 0,
            "a drive without platters"
        );
        assert!(parameters.queue_depth > 0, "a drive without a queue");
        assert!(
            parameters.seek.time(1.0) <= parameters.track_switch,
            "the skew between tracks ({}) is shorter than the seek ({})",
            parameters.track_switch,
            parameters.seek.time(1.0)
        );
        let phase = u32::try_from(Random::new(seed, "hdd angle").next_u64() >> 32);
        let spindle = Spindle::new(parameters.turn(), Angle(phase.expect("the upper half")));
        let geometry = Geometry::new(&parameters, spindle);
        let depth = parameters.queue_depth;
        let cache_capacity = parameters.cache.to_sectors();
        let longest_stretch = DESTAGE_PIECE.to_sectors() * 2;
        Hdd {
            scale: Scale::new(parameters.cylinders, geometry.cylinders()),
            geometry,
            spindle,
            door: Door::new(depth),
            agenda: Agenda::new(),
            tray: Tray::default(),
            slots: vec![None; depth],
            free_slots: (0..depth).rev().collect(),
            for_arm: Vec::with_capacity(depth),
            stalled: VecDeque::with_capacity(depth),
            flushes: Vec::with_capacity(depth),
            read_buffer: ReadBuffer::new(parameters.segments, parameters.segment.to_sectors()),
            cache: WriteCache::new(cache_capacity, parameters.cache_stretches, longest_stretch),
            work: None,
            stream: None,
            cylinder: 0,
            head: 0,
            destaged_last: false,
            resting_since: Time::ZERO,
            look_planned: false,
            link_free: Time::ZERO,
            now: Time::ZERO,
            parameters,
        }
    }

    /// The drive's description.
    pub fn parameters(&self) -> &HddParameters {
        &self.parameters
    }

    fn slot(&self, slot: usize) -> &Slot {
        self.slots[slot]
            .as_ref()
            .expect("the agenda names slots in use")
    }

    fn slot_mut(&mut self, slot: usize) -> &mut Slot {
        self.slots[slot]
            .as_mut()
            .expect("the agenda names slots in use")
    }

    // ---- the electronics -----------------------------------------------------------------

    fn enter(&mut self, now: Time) {
        while let Some(command) = self.door.enter() {
            let slot = self
                .free_slots
                .pop()
                .expect("as many slots as the door lets in");
            let place = match command.op {
                DiskOp::Read | DiskOp::Write => self.geometry.place(command.start),
                DiskOp::Flush | DiskOp::Discard => self.geometry.place(Sector::ZERO),
            };
            let entered = Slot {
                command,
                place,
                entered: now,
                started: now,
                ready: false,
                cached: false,
            };
            self.slots[slot] = Some(entered);
            self.take_up(now, slot);
        }
    }

    fn take_up(&mut self, now: Time, slot: usize) {
        let command = self.slot(slot).command;
        let overheads = self.parameters.overheads;
        match command.op {
            DiskOp::Read => {
                self.settle_stream(now);
                if self.in_memory(&command) {
                    self.keep_reading(now, &command);
                    self.over_the_link(now + overheads.read_hit, slot);
                } else {
                    self.queue_for_arm(now + overheads.read_miss, slot);
                }
            }
            DiskOp::Write => {
                self.read_buffer.forget(command.start, command.end());
                let cacheable = command.length <= self.cache.capacity();
                if self.parameters.write_cache && cacheable && !command.fua {
                    self.stalled.push_back(slot);
                    self.take_into_cache(now);
                } else {
                    self.queue_for_arm(now + overheads.write_miss, slot);
                }
            }
            DiskOp::Flush => {
                self.flushes.push((slot, self.cache.next_number()));
                self.agenda
                    .plan(now + overheads.write_hit, Event::Ready(slot));
            }
            DiskOp::Discard => self
                .agenda
                .plan(now + overheads.write_hit, Event::Done(slot)),
        }
    }

    fn in_memory(&mut self, command: &Command) -> bool {
        let (start, end) = (command.start, command.end());
        self.read_buffer.holds(start, end) || self.cache.holds(start, end)
    }

    fn queue_for_arm(&mut self, ready: Time, slot: usize) {
        self.for_arm.push(slot);
        self.agenda.plan(ready, Event::Ready(slot));
    }

    /// Data between host and memory; the link carries one command's at a time.
    fn over_the_link(&mut self, ready: Time, slot: usize) {
        let length = self.slot(slot).command.length.to_bytes();
        self.link_free = self.link_free.max(ready) + transfer_time(length, self.parameters.link);
        self.agenda.plan(self.link_free, Event::Done(slot));
    }

    /// Writes go into the cache as they came, while there is room.
    fn take_into_cache(&mut self, now: Time) {
        while let Some(&slot) = self.stalled.front() {
            if !self.cache.reserve(self.slot(slot).command.length) {
                return;
            }
            self.stalled.pop_front();
            self.slot_mut(slot).cached = true;
            self.over_the_link(now + self.parameters.overheads.write_hit, slot);
        }
    }

    fn complete(&mut self, now: Time, slot: usize) {
        let done = self.slots[slot].take().expect("a command completes once");
        if done.cached {
            let (start, end) = (done.command.start, done.command.end());
            // The youngest flush's number: whatever any flush waits for must not grow.
            let barrier = self.flushes.iter().map(|&(_, number)| number).max();
            self.cache.take(start, end, done.place, now, barrier);
            self.take_into_cache(now);
        }
        self.free_slots.push(slot);
        self.door.leave();
        self.tray.put(Completion {
            tag: done.command.tag,
            started: done.started,
            time: now,
        });
        self.enter(now);
    }

    // ---- the arm -------------------------------------------------------------------------

    /// Gives the arm its next work, if it is free and there is any: the drive's policy.
    fn direct_arm(&mut self, now: Time) {
        if self.work.is_some() {
            return;
        }
        if let Some(number) = self.answer_flushes(now) {
            let dirty = self.nearest_dirty(now, |dirty| dirty.number < number);
            self.destage(now, dirty.expect("an unanswered flush waits for something"));
            return;
        }
        if self.cache_presses(now) && !self.destaged_last {
            let dirty = self
                .nearest_dirty(now, |_| true)
                .expect("an empty cache does not press");
            self.destage(now, dirty);
            return;
        }
        if let Some(index) = self.choose_command(now) {
            self.serve(now, index);
            return;
        }
        if self.cache.stretches().is_empty() {
            return;
        }
        let rested = now.saturating_since(self.resting_since) >= self.parameters.destage_delay;
        if rested || self.cache_presses(now) {
            let dirty = self.nearest_dirty(now, |_| true).expect("not empty");
            self.destage(now, dirty);
        } else if !self.look_planned {
            self.look_planned = true;
            self.agenda.plan(
                self.resting_since + self.parameters.destage_delay,
                Event::Look,
            );
        }
    }

    /// The cache is nearly full, writes wait for room, or its data are old.
    fn cache_presses(&self, now: Time) -> bool {
        let stretches = self.cache.stretches();
        let full = self.cache.held().as_u64() * 10 > self.cache.capacity().as_u64() * 8
            || stretches.len() * 10 > self.parameters.cache_stretches * 8
            || !self.stalled.is_empty();
        let age = |dirty: &Dirty| now.saturating_since(dirty.since);
        !stretches.is_empty()
            && (full
                || stretches
                    .iter()
                    .any(|dirty| age(dirty) > self.parameters.destage_age))
    }

    /// Flushes whose writes are all on the medium are done. For the first one that is not: the
    /// number that the writes it waits for are below.
    fn answer_flushes(&mut self, now: Time) -> Option<u64> {
        let mut index = 0;
        while index < self.flushes.len() {
            let (slot, number) = self.flushes[index];
            if self
                .cache
                .stretches()
                .iter()
                .any(|dirty| dirty.number < number)
            {
                return Some(number);
            }
            if self.slot(slot).ready {
                self.flushes.remove(index);
                self.agenda.plan(now, Event::Done(slot));
            } else {
                index += 1; // still on its way through the electronics
            }
        }
        None
    }

    fn choose_command(&self, now: Time) -> Option<usize> {
        let &first = self.for_arm.first()?;
        let oldest = self.slot(first);
        let overdue = now.saturating_since(oldest.entered) > self.parameters.age_limit;
        if self.parameters.order == DriveQueue::Fifo || overdue {
            return oldest.ready.then_some(0);
        }
        let waiting = self.for_arm.iter().map(|&slot| self.slot(slot)).enumerate();
        waiting
            .filter(|(_, slot)| slot.ready)
            .min_by_key(|(_, slot)| {
                let write = matches!(slot.command.op, DiskOp::Write);
                self.access_time(now, &slot.place, write)
            })
            .map(|(index, _)| index)
    }

    fn nearest_dirty(&self, now: Time, wanted: impl Fn(&Dirty) -> bool) -> Option<usize> {
        let stretches = self.cache.stretches().iter().enumerate();
        stretches
            .filter(|(_, dirty)| wanted(dirty))
            .min_by_key(|(_, dirty)| self.access_time(now, &dirty.place, true))
            .map(|(index, _)| index)
    }

    fn serve(&mut self, now: Time, index: usize) {
        let slot = self.for_arm.remove(index);
        let command = self.slot(slot).command;
        self.slot_mut(slot).started = now;
        self.destaged_last = false;
        self.settle_stream(now);
        if matches!(command.op, DiskOp::Write) {
            self.stream = None;
            self.read_buffer.forget(command.start, command.end());
            let done = self.pass(now, command.start, command.end(), true);
            self.start_work(done, Work::Write(slot));
            return;
        }
        if self.in_memory(&command) {
            // The stream brought it while it waited.
            self.keep_reading(now, &command);
            self.over_the_link(now, slot);
            self.direct_arm(now);
            return;
        }
        let continued = self.stream.filter(|stream| {
            let near = command.start <= stream.next && stream.next < command.end();
            near && (command.start == stream.next
                || self.read_buffer.holds(command.start, stream.next))
        });
        let (from, ready) = match continued {
            // Some of the next sector may have passed already: it is not missed.
            Some(stream) if stream.next < stream.limit => (stream.next, stream.ready),
            Some(stream) => (stream.next, now.max(stream.ready)),
            None => (command.start, now),
        };
        let done = self.pass(ready, from, command.end(), false);
        let limit = self.read_ahead_limit(command.end());
        self.stream = Some(Stream {
            next: command.end(),
            ready: done,
            limit,
        });
        self.start_work(done, Work::Read(slot, from));
    }

    fn destage(&mut self, now: Time, index: usize) {
        self.settle_stream(now);
        self.stream = None;
        self.destaged_last = true;
        let geometry = &self.geometry;
        let piece = DESTAGE_PIECE.to_sectors();
        let dirty = self
            .cache
            .take_out(index, piece, |sector| geometry.place(sector));
        let done = self.pass(now, dirty.start, dirty.end, true);
        self.start_work(done, Work::Destage(dirty));
    }

    fn start_work(&mut self, done: Time, work: Work) {
        self.work = Some(work);
        self.agenda.plan(done, Event::ArmDone);
    }

    fn arm_done(&mut self, now: Time) {
        self.resting_since = now;
        match self.work.take().expect("the arm was at work") {
            Work::Read(slot, from) => {
                let end = self.slot(slot).command.end();
                self.read_buffer.fill(from, end);
                self.complete(now, slot);
            }
            Work::Write(slot) => self.complete(now, slot),
            Work::Destage(dirty) => {
                self.cache.written(&dirty);
                self.take_into_cache(now);
            }
        }
    }

    // ---- mechanics -----------------------------------------------------------------------

    /// Time from one track to another.
    fn move_time(&self, cylinder: u32, head: u32, to: &Place, write: bool) -> Nanos {
        let distance = cylinder.abs_diff(to.cylinder);
        let switch = if head == to.head {
            Nanos::ZERO
        } else {
            self.parameters.head_switch
        };
        let settle = if write && distance > 1 {
            self.parameters.write_settle
        } else {
            Nanos::ZERO
        };
        self.parameters
            .seek
            .time(self.scale.nominal(distance))
            .max(switch)
            + settle
    }

    /// Time until a sector begins to pass, for a head that waits on its track from `now` on.
    fn rotation_wait(&self, now: Time, place: &Place) -> Nanos {
        let wait = self
            .spindle
            .time_of(self.spindle.angle_at(now).until(place.angle));
        if wait + TOLERANCE >= self.parameters.turn() {
            Nanos::ZERO
        } else {
            wait
        }
    }

    /// Time until a sector begins to pass, from where the heads are now.
    fn access_time(&self, now: Time, place: &Place, write: bool) -> Nanos {
        let moved = self.move_time(self.cylinder, self.head, place, write);
        moved + self.rotation_wait(now + moved, place)
    }

    /// Moves the heads and lets `start` to `end` pass under them; says when the last has passed.
    fn pass(&mut self, now: Time, start: Sector, end: Sector, write: bool) -> Time {
        let mut time = now;
        let mut from = start;
        while from < end {
            let place = self.geometry.place(from);
            time += self.access_time(time, &place, write);
            (self.cylinder, self.head) = (place.cylinder, place.head);
            let sectors = (end - from).min(Sectors::new(place.left_on_track));
            time += passing_time(self.spindle, &place, sectors);
            from += sectors;
        }
        time
    }

    fn read_ahead_limit(&self, end: Sector) -> Sector {
        let limit = end + self.parameters.read_ahead.to_sectors();
        limit.min(Sector::ZERO + self.parameters.capacity)
    }

    /// A read was answered from the stream's segment: reading on goes further, and begins again
    /// when half of what was read ahead is used.
    fn keep_reading(&mut self, now: Time, command: &Command) {
        let limit = self.read_ahead_limit(command.end());
        let ahead = self.parameters.read_ahead.to_sectors();
        let Some(stream) = self.stream.as_mut().filter(|_| self.work.is_none()) else {
            return;
        };
        if command.end() > stream.next || stream.next - command.end() > ahead {
            return; // another segment's
        }
        let stopped = stream.next == stream.limit;
        if stopped && (stream.next - command.end()) * 2 > ahead {
            return;
        }
        if stopped {
            stream.ready = stream.ready.max(now);
        }
        stream.limit = stream.limit.max(limit);
    }

    /// Reads on until `now` and keeps what came.
    fn settle_stream(&mut self, now: Time) {
        if self.work.is_some() {
            return; // the stream begins where the work ends
        }
        let Some(mut stream) = self.stream else {
            return;
        };
        let first = stream.next;
        while stream.next < stream.limit && stream.ready < now {
            let place = self.geometry.place(stream.next);
            let begin = stream.ready + self.access_time(stream.ready, &place, false);
            if begin >= now {
                break;
            }
            (self.cylinder, self.head) = (place.cylinder, place.head);
            let left = Sectors::new(place.left_on_track).min(stream.limit - stream.next);
            let whole = begin + passing_time(self.spindle, &place, left);
            if whole <= now {
                stream.next += left;
                stream.ready = whole;
                continue;
            }
            let passed = self.spindle.angle_in(now - begin).0 / place.sector_angle.0;
            let passed = Sectors::new(u64::from(passed)).min(left);
            stream.next += passed;
            stream.ready = begin + passing_time(self.spindle, &place, passed);
            break;
        }
        self.read_buffer.fill(first, stream.next);
        self.stream = Some(stream);
    }

    // ---- time ----------------------------------------------------------------------------

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Ready(slot) => self.slot_mut(slot).ready = true,
            Event::ArmDone => self.arm_done(now),
            Event::Look => self.look_planned = false,
            Event::Done(slot) => self.complete(now, slot),
        }
        self.direct_arm(now);
    }

    fn catch_up(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some((time, event)) = self.agenda.take_due(self.now) {
            self.happen(time, event);
        }
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
        self.parameters.capacity
    }

    fn queue_depth(&self) -> usize {
        self.door.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        assert_on_disk(&command, self.parameters.capacity);
        self.catch_up(now);
        self.door.arrive(command);
        self.enter(self.now);
    }

    fn next_event(&self) -> Option<Time> {
        earlier(self.tray.next_time(), self.agenda.next_time())
    }

    fn advance(&mut self, now: Time, completed: &mut Vec<Completion>) {
        self.catch_up(now);
        self.tray.fetch(completed);
    }
}
