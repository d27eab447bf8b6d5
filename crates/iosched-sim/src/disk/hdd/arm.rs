//! What the arm does next, and how it does it.

use super::Access;
use super::mechanics::{Receiving, Sending};
use super::stream::Stream;
use super::write_cache::Dirty;
use super::{DESTAGE_PIECE, Hdd, HddEvent};
use crate::disk::{DiskOp, DriveQueue};
use crate::event_queue::Key;
use crate::units::{Sector, Sectors, Time};

/// What the arm is doing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// Reading for a command.
    Read(Read),
    /// Writing for the command in this slot.
    Write(usize),
    /// Writing back this stretch.
    Destage(Dirty),
}

/// A read that the arm is at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    slot: usize,
    /// The first sector that goes into the buffer.
    from: Sector,
    /// When the data are with the host.
    delivered: Time,
}

impl Hdd {
    /// Gives the arm, which is free, its next work, if there is any: the drive's policy.
    ///
    /// What happens at the same time as `key` says has happened as far as it was planned before.
    #[inline(always)]
    pub(super) fn direct_arm(&mut self, key: Key) {
        let now = key.time();
        let reads_only = self.flushes.is_empty() && self.cache.stretches().is_empty();
        if !reads_only && self.writes_back_first(now) {
            return;
        }
        if let Some(index) = self.choose_command(key) {
            self.serve(key, index);
            return;
        }
        self.announce_ready();
        if !self.cache.stretches().is_empty() {
            self.write_back_or_rest(now);
        }
    }

    /// Writes back before any command is served, if a flush waits for that or the cache presses.
    #[inline(never)]
    fn writes_back_first(&mut self, now: Time) -> bool {
        if let Some(number) = self.answer_flushes(now) {
            let dirty = self.nearest_dirty(now, |dirty| dirty.number < number);
            self.destage(now, dirty.expect("an unanswered flush waits for something"));
            return true;
        }
        let first = self.cache_presses(now) && !self.destaged_last;
        if first {
            let dirty = self
                .nearest_dirty(now, |_| true)
                .expect("an empty cache does not press");
            self.destage(now, dirty);
        }
        first
    }

    /// No command can be served: the cache is written back, after a moment of rest.
    #[inline(never)]
    fn write_back_or_rest(&mut self, now: Time) {
        let rested =
            now.saturating_since(self.resting_since) >= *self.parameters.writing.destage_delay;
        if rested || self.cache_presses(now) {
            let dirty = self.nearest_dirty(now, |_| true).expect("not empty");
            self.destage(now, dirty);
        } else if !self.rest_planned {
            self.rest_planned = true;
            let rested = self.resting_since + *self.parameters.writing.destage_delay;
            self.event_queue.plan(rested, HddEvent::Rested);
        }
    }

    /// The cache is nearly full, writes wait for room, or its data are old.
    fn cache_presses(&self, now: Time) -> bool {
        let stretches = self.cache.stretches();
        let full = self.cache.held().as_u64() * 10 > self.cache.capacity().as_u64() * 8
            || stretches.len() * 10 > self.parameters.writing.cache_stretches * 8
            || !self.stalled.is_empty();
        let age = |dirty: &Dirty| now.saturating_since(dirty.since);
        !stretches.is_empty()
            && (full
                || stretches
                    .iter()
                    .any(|dirty| age(dirty) > *self.parameters.writing.destage_age))
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
                self.event_queue.plan(now, HddEvent::Done(slot));
            } else {
                index += 1; // still on its way through the electronics
            }
        }
        None
    }

    fn choose_command(&self, key: Key) -> Option<usize> {
        let now = key.time();
        let oldest = self.for_arm.first()?;
        let overdue = now.saturating_since(oldest.entered) > *self.parameters.age_limit;
        if self.parameters.order == DriveQueue::Fifo || overdue {
            return (oldest.ready <= key).then_some(0);
        }
        self.soonest_command(key)
    }

    #[inline(never)]
    fn soonest_command(&self, key: Key) -> Option<usize> {
        let waiting = &self.for_arm;
        self.mechanics.soonest(key.time(), waiting.len(), |index| {
            let waiting = &waiting[index];
            (waiting.ready <= key).then_some((waiting.spot, waiting.access))
        })
    }

    fn nearest_dirty(&self, now: Time, wanted: impl Fn(&Dirty) -> bool) -> Option<usize> {
        let stretches = self.cache.stretches();
        self.mechanics.soonest(now, stretches.len(), |index| {
            let dirty = &stretches[index];
            wanted(dirty).then_some((dirty.place.spot, Access::Write))
        })
    }

    fn serve(&mut self, key: Key, index: usize) {
        let now = key.time();
        let slot = self.for_arm.remove(index).slot;
        self.slot_mut(slot).started = now;
        self.destaged_last = false;
        self.settle_stream(now);
        match self.slot(slot).command.op {
            DiskOp::Write => self.serve_write(now, slot),
            _ => self.serve_read(key, slot),
        }
    }

    #[inline(never)]
    fn serve_write(&mut self, now: Time, slot: usize) {
        let write = *self.slot(slot);
        let command = write.command;
        self.stream = None;
        self.read_buffer.forget(command.start, command.end());
        let receiving = Receiving {
            pace: self.write_pace,
            from: write.data_from,
            threshold: Sectors::new(self.parameters.writing.threshold_sectors).min(command.length),
        };
        let range = (command.start, command.end());
        let done = self.mechanics.pass(
            now,
            range,
            write.place,
            Access::Write,
            |mechanics, piece| receiving.delay(mechanics, piece),
        );
        self.start_work(done, Work::Write(slot));
    }

    fn serve_read(&mut self, key: Key, slot: usize) {
        let now = key.time();
        let command = self.slot(slot).command;
        if self.in_memory(&command) {
            return self.serve_from_memory(key, slot);
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
        let overheads = self.parameters.overheads;
        let present = from - command.start;
        let length = (command.length, present);
        let threshold = self.read_threshold(command.length);
        let setup = *overheads.reselect + *overheads.data_preparation;
        let mut sending = Sending::new(self.read_pace, length, threshold, now, setup);
        let keeps_passing = self.parameters.reading.keeps_passing && continued.is_none();
        let mut kept = Sectors::ZERO;
        let range = (from, command.end());
        let place = if from == command.start {
            self.slot(slot).place
        } else {
            self.mechanics.place(from)
        };
        let read = self
            .mechanics
            .pass(ready, range, place, Access::Read, |mechanics, piece| {
                sending.pass(mechanics, piece);
                if keeps_passing && piece.before == Sectors::ZERO {
                    let passed = mechanics.passed_in(&piece.place, piece.waited);
                    kept = passed.min(Sectors::new(piece.place.passed_on_track));
                }
                0
            });
        let done = read.max(now);
        let first = from - kept;
        let begin = continued.map_or(first, |stream| stream.begin);
        self.stream = Some(Stream {
            begin,
            next: command.end(),
            ready: read,
            limit: self.read_ahead_limit(begin, command.end()),
        });
        let length = self.read_pace.time(command.length);
        self.link_free = sending.delivered().max(self.link_free + length).max(done);
        let read = Read {
            slot,
            from: first,
            delivered: self.link_free,
        };
        self.start_work(done, Work::Read(read));
    }

    /// The stream has brought what a read wants while it waited.
    #[inline(never)]
    fn serve_from_memory(&mut self, key: Key, slot: usize) {
        let command = self.slot(slot).command;
        self.keep_reading(key.time(), &command);
        self.send_from_memory(key.time(), slot);
        self.direct_arm(key);
    }

    /// How much of a read is in the buffer before its data are sent.
    fn read_threshold(&self, length: Sectors) -> Sectors {
        let reading = &self.parameters.reading;
        let most = length.min(reading.segment.to_sectors());
        let share = most.as_u64() * u64::from(reading.threshold_permille) / 1000;
        Sectors::new(share.max(1))
    }

    #[inline(never)]
    fn destage(&mut self, now: Time, index: usize) {
        self.settle_stream(now);
        self.stream = None;
        self.destaged_last = true;
        let mechanics = &self.mechanics;
        let piece = DESTAGE_PIECE.to_sectors();
        let dirty = self
            .cache
            .take_out(index, piece, |sector| mechanics.place(sector));
        let range = (dirty.start, dirty.end);
        let done = self
            .mechanics
            .pass(now, range, dirty.place, Access::Write, |_, _| 0);
        self.start_work(done, Work::Destage(dirty));
    }

    #[inline]
    fn start_work(&mut self, done: Time, work: Work) {
        self.work = Some(work);
        self.event_queue.plan(done, HddEvent::ArmDone);
    }

    pub(super) fn arm_done(&mut self, now: Time) {
        self.resting_since = now;
        match self.work.take().expect("the arm was at work") {
            Work::Read(read) => {
                let end = self.slot(read.slot).command.end();
                self.read_buffer.fill(read.from, end);
                self.finish(now, self.completion_of(&read), read.slot);
            }
            Work::Write(slot) => self.write_done(now, slot),
            Work::Destage(dirty) => self.destaged(now, &dirty),
        }
    }

    #[inline(never)]
    fn write_done(&mut self, now: Time, slot: usize) {
        let command = self.slot(slot).command;
        self.keep_written(command.start, command.end());
        let overheads = &self.parameters.overheads;
        let done = now + *overheads.reselect + *overheads.write_completion;
        self.finish(now, done, slot);
    }

    #[inline(never)]
    fn destaged(&mut self, now: Time, dirty: &Dirty) {
        self.keep_written(dirty.start, dirty.end);
        self.cache.written(dirty);
        self.take_into_cache(now);
    }

    /// When a read that the arm is at completes.
    pub(super) fn completion_of(&self, read: &Read) -> Time {
        read.delivered + *self.parameters.overheads.read_completion
    }

    fn keep_written(&mut self, start: Sector, end: Sector) {
        if self.parameters.writing.keeps_written {
            self.read_buffer.fill(start, end);
        }
    }

    /// The command in this slot is done at `done`, which may be now.
    #[inline]
    fn finish(&mut self, now: Time, done: Time, slot: usize) {
        if done <= now {
            self.complete(now, slot);
        } else {
            self.event_queue.plan(done, HddEvent::Done(slot));
        }
    }
}
