//! Solid-state drives as a queueing model: a fixed way through the electronics, then one of many
//! dies chosen at random, then a link that all commands share.
//!
//! A read of `n` bytes needs `n / page` page reads, each at a die chosen at random and of one of two
//! classes (the page types of multi-level cells). With five numbers this shape gives the measured
//! 4 KiB random-read latencies of a Samsung 980 PRO at depths 1 to 128 within about 10 % (see
//! `docs/disk-models.md`). Writes go over the link into a bounded buffer, are acknowledged there if
//! the write cache is on, and are programmed die after die in the order that they came; a read that
//! meets a program waits for it. A flush waits for all programs, then for its own fixed cost.
//!
//! Left out: the flash translation layer, garbage collection and erases (so a full drive's slow
//! writes), program suspension, single-level-cell caches, reads answered from the buffer.

use std::collections::VecDeque;

use super::door::{Agenda, Door, Tray, earlier};
use super::{Command, Completion, DiskModel, DiskOp, assert_on_disk, transfer_time};
use crate::random::Random;
use crate::units::{Bytes, Nanos, Sectors, Time};

/// A shared way for data: each transfer takes `per_command + length / bytes_per_second`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Fixed part, during which nothing else passes.
    pub per_command: Nanos,
    /// Rate of the rest.
    pub bytes_per_second: u64,
}

impl Link {
    fn time(&self, length: Bytes) -> Nanos {
        self.per_command + transfer_time(length, self.bytes_per_second)
    }
}

/// What makes one solid-state drive differ from another.
#[derive(Debug, Clone, PartialEq)]
pub struct SsdParameters {
    /// Size.
    pub capacity: Sectors,
    /// Commands taken at a time.
    pub queue_depth: usize,
    /// Dies that work side by side.
    pub dies: usize,
    /// Electronics on the way of a read, without any queueing.
    pub read_pipeline: Nanos,
    /// What one page read brings.
    pub page: Bytes,
    /// Page read time of the fast class.
    pub read_fast: Nanos,
    /// Page read time of the slow class.
    pub read_slow: Nanos,
    /// Share of the fast class, in thousandths.
    pub read_fast_permille: u64,
    /// Link for data read.
    pub read_link: Link,
    /// Electronics on the way of a write, a discard or a flush.
    pub write_pipeline: Nanos,
    /// Link for data written (the same wire: both directions exclude each other).
    pub write_link: Link,
    /// What one program operation writes.
    pub program: Bytes,
    /// How long it takes.
    pub program_time: Nanos,
    /// Buffer for data not yet programmed.
    pub buffer: Bytes,
    /// Writes are acknowledged in the buffer.
    pub write_cache: bool,
    /// Fixed cost of a flush after the last program.
    pub flush: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A read's address reached the dies.
    AtDies(usize),
    /// All pages of a read are in the electronics.
    PagesRead(usize),
    /// A write is decoded, its data can come.
    WriteDecoded(usize),
    /// A write's data are in the electronics.
    DataArrived(usize),
    /// A flush reached the electronics.
    FlushDecoded(usize),
    /// This many bytes left the buffer for the medium.
    Programmed(u64),
    /// A command is done.
    Done(usize),
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    command: Command,
    started: Time,
}

/// See the [module's page](self).
#[derive(Debug)]
pub struct Ssd {
    parameters: SsdParameters,
    door: Door,
    agenda: Agenda<Event>,
    tray: Tray,
    slots: Vec<Option<Slot>>,
    free_slots: Vec<usize>,
    die_random: Random,
    class_random: Random,
    /// When each die is done with everything that it was given.
    die_free: Vec<Time>,
    link_free: Time,
    flush_free: Time,
    /// In the buffer, programmed or not.
    buffered: Bytes,
    /// In the buffer and not yet given to a die: less than one program.
    partial: Bytes,
    /// When everything given to the dies for programming is on the medium.
    programmed_by: Time,
    next_die: usize,
    /// Writes whose data wait for room in the buffer.
    stalled: VecDeque<usize>,
    now: Time,
}

impl Ssd {
    /// A drive as described, empty and idle.
    ///
    /// # Panics
    /// If a parameter that must be positive is zero.
    pub fn new(parameters: SsdParameters, seed: u64) -> Ssd {
        assert!(
            parameters.dies > 0 && parameters.queue_depth > 0,
            "a drive without dies or queue"
        );
        assert!(
            parameters.page > Bytes::ZERO && parameters.program > Bytes::ZERO,
            "empty pages"
        );
        let depth = parameters.queue_depth;
        Ssd {
            door: Door::new(depth),
            agenda: Agenda::new(),
            tray: Tray::default(),
            slots: vec![None; depth],
            free_slots: (0..depth).rev().collect(),
            die_random: Random::new(seed, "ssd dies"),
            class_random: Random::new(seed, "ssd page classes"),
            die_free: vec![Time::ZERO; parameters.dies],
            link_free: Time::ZERO,
            flush_free: Time::ZERO,
            buffered: Bytes::ZERO,
            partial: Bytes::ZERO,
            programmed_by: Time::ZERO,
            next_die: 0,
            stalled: VecDeque::with_capacity(depth),
            now: Time::ZERO,
            parameters,
        }
    }

    fn slot(&self, slot: usize) -> &Slot {
        self.slots[slot]
            .as_ref()
            .expect("the agenda names slots in use")
    }

    fn enter(&mut self, now: Time) {
        while let Some(command) = self.door.enter() {
            let slot = self
                .free_slots
                .pop()
                .expect("as many slots as the door lets in");
            self.slots[slot] = Some(Slot {
                command,
                started: now,
            });
            let (pipeline, event) = match command.op {
                DiskOp::Read => (self.parameters.read_pipeline, Event::AtDies(slot)),
                DiskOp::Write => (self.parameters.write_pipeline, Event::WriteDecoded(slot)),
                DiskOp::Flush => (self.parameters.write_pipeline, Event::FlushDecoded(slot)),
                DiskOp::Discard => (self.parameters.write_pipeline, Event::Done(slot)),
            };
            self.agenda.plan(now + pipeline, event);
        }
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::AtDies(slot) => self.read_pages(now, slot),
            Event::PagesRead(slot) => {
                let link = self.parameters.read_link;
                self.over_the_link(now, slot, link, Event::Done(slot));
            }
            Event::WriteDecoded(slot) => {
                let link = self.parameters.write_link;
                self.over_the_link(now, slot, link, Event::DataArrived(slot));
            }
            Event::DataArrived(slot) => {
                self.stalled.push_back(slot);
                self.take_into_buffer(now);
            }
            Event::FlushDecoded(slot) => {
                let clean = self.program_all(now).max(self.flush_free);
                self.flush_free = clean + self.parameters.flush;
                self.agenda.plan(self.flush_free, Event::Done(slot));
            }
            Event::Programmed(bytes) => {
                self.buffered -= Bytes::new(bytes);
                self.take_into_buffer(now);
            }
            Event::Done(slot) => self.complete(now, slot),
        }
    }

    fn read_pages(&mut self, now: Time, slot: usize) {
        let length = self.slot(slot).command.length.to_bytes();
        let pages = length.as_u64().div_ceil(self.parameters.page.as_u64());
        let mut read_by = now;
        for _ in 0..pages {
            let die = self.random_die();
            let fast = self.class_random.below(1000) < self.parameters.read_fast_permille;
            let time = if fast {
                self.parameters.read_fast
            } else {
                self.parameters.read_slow
            };
            let done = self.die_free[die].max(now) + time;
            self.die_free[die] = done;
            read_by = read_by.max(done);
        }
        self.agenda.plan(read_by, Event::PagesRead(slot));
    }

    #[expect(clippy::cast_possible_truncation, reason = "below the number of dies")]
    fn random_die(&mut self) -> usize {
        self.die_random.below(self.parameters.dies as u64) as usize
    }

    fn over_the_link(&mut self, now: Time, slot: usize, link: Link, then: Event) {
        let length = self.slot(slot).command.length.to_bytes();
        self.link_free = self.link_free.max(now) + link.time(length);
        self.agenda.plan(self.link_free, then);
    }

    /// Writes enter the buffer as they came, while there is room. One that is larger than the whole
    /// buffer enters when it is empty.
    fn take_into_buffer(&mut self, now: Time) {
        while let Some(&slot) = self.stalled.front() {
            let command = self.slot(slot).command;
            let length = command.length.to_bytes();
            if self.buffered > Bytes::ZERO && self.buffered + length > self.parameters.buffer {
                // What is left of the last program would wait for more data for ever.
                self.program_all(now);
                return;
            }
            self.stalled.pop_front();
            self.buffered += length;
            self.partial += length;
            while self.partial >= self.parameters.program {
                self.program(now, self.parameters.program);
            }
            if self.parameters.write_cache && !command.fua {
                self.complete(now, slot);
            } else {
                let durable = self.program_all(now);
                self.agenda.plan(durable, Event::Done(slot));
            }
        }
    }

    fn program(&mut self, now: Time, bytes: Bytes) {
        self.partial -= bytes;
        let done = self.die_free[self.next_die].max(now) + self.parameters.program_time;
        self.die_free[self.next_die] = done;
        self.next_die = (self.next_die + 1) % self.parameters.dies;
        self.programmed_by = self.programmed_by.max(done);
        self.agenda.plan(done, Event::Programmed(bytes.as_u64()));
    }

    /// Gives the rest of the buffer to a die; says when all of it is on the medium.
    fn program_all(&mut self, now: Time) -> Time {
        if self.partial > Bytes::ZERO {
            self.program(now, self.partial);
        }
        self.programmed_by.max(now)
    }

    fn complete(&mut self, now: Time, slot: usize) {
        let done = self.slots[slot].take().expect("a command completes once");
        self.free_slots.push(slot);
        self.door.leave();
        self.tray.put(Completion {
            tag: done.command.tag,
            started: done.started,
            time: now,
        });
        self.enter(now);
    }

    fn catch_up(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some((time, event)) = self.agenda.take_due(self.now) {
            self.happen(time, event);
        }
    }

    /// What was acknowledged or is on its way, and not yet on the medium.
    #[cfg(test)]
    pub(super) fn not_on_medium(&self) -> Bytes {
        self.buffered
    }
}

impl DiskModel for Ssd {
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
