//! Solid-state drives as a queueing model: a fixed way through the electronics, then one of many
//! dies chosen at random, then a link that all commands share.
//!
//! A read of `n` bytes needs `n / page` page reads, each at a die chosen at random and of one of two
//! classes (the page types of multi-level cells). With five numbers this shape gives the measured
//! 4 KiB random-read latencies of a Samsung 980 PRO at depths 1 to 128 within about 10 % (see
//! `docs/disk-models.md`). Drives that are made for reads of a page put longer ones together on another way,
//! which takes longer and passes less ([`LongReads`]). Writes go over the link into a bounded buffer, are acknowledged there if
//! the write cache is on, and are programmed die after die in the order that they came; a read that
//! meets a program waits for it. A flush waits for all programs, then for its own fixed cost.
//!
//! Left out: the flash translation layer, garbage collection and erases (so a full drive's slow
//! writes), program suspension, single-level-cell caches, reads answered from the buffer.

use std::collections::VecDeque;

use super::admission::{Admission, CompletionQueue};
use super::{Command, Completion, DiskModel, DiskOp, assert_on_disk};
use crate::event_queue::{EventQueue, Planned};
use crate::random::Random;
use crate::reciprocal::Divisor;
use crate::units::{Bytes, Nanos, Sectors, Time};

/// A shared way for data: each transfer takes `per_command + length / bytes_per_second`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Fixed part, during which nothing else passes.
    pub per_command: Nanos,
    /// Rate of the rest.
    pub bytes_per_second: u64,
}

/// A link that knows what data take on it.
#[derive(Debug, Clone, Copy)]
struct Wire {
    per_command: Nanos,
    bytes_per_second: Divisor,
}

impl Wire {
    fn new(link: Link) -> Wire {
        Wire {
            per_command: link.per_command,
            bytes_per_second: Divisor::new(link.bytes_per_second),
        }
    }

    /// Rounded up to a nanosecond.
    #[expect(clippy::cast_possible_truncation, reason = "centuries fit")]
    fn time(self, length: Bytes) -> Nanos {
        const SECOND: u64 = 1_000_000_000;
        let short = length.as_u64().checked_mul(SECOND);
        let nanos = short.map_or_else(
            || {
                let product = u128::from(length.as_u64()) * u128::from(SECOND);
                product.div_ceil(u128::from(self.bytes_per_second.get())) as u64
            },
            |product| self.bytes_per_second.divide_up(product),
        );
        self.per_command + Nanos::new(nanos)
    }
}

/// The way of reads that are longer than a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongReads {
    /// What the electronics take longer than for a page.
    pub pipeline: Nanos,
    /// Rate of their data on the link.
    pub bytes_per_second: u64,
}

/// [`LongReads`], or the same as the way of a page.
#[derive(Debug, Clone, Copy)]
struct LongWay {
    pipeline: Nanos,
    wire: Wire,
}

impl LongWay {
    fn new(parameters: &SsdParameters) -> LongWay {
        let mut link = parameters.read_link;
        let mut pipeline = parameters.read_pipeline;
        if let Some(long) = parameters.long_reads {
            link.bytes_per_second = long.bytes_per_second;
            pipeline += long.pipeline;
        }
        LongWay {
            pipeline,
            wire: Wire::new(link),
        }
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
    /// If reads longer than a page differ.
    pub long_reads: Option<LongReads>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Lines of the event queue.
const AT_DIES: usize = 0;
const PAGES_READ: usize = 1;
const DONE: usize = 2;
const WRITES: usize = 3;
const LINES: usize = 4;

impl Planned for Event {
    fn line(&self) -> Option<usize> {
        match self {
            Event::AtDies(_) => Some(AT_DIES),
            Event::PagesRead(_) => Some(PAGES_READ),
            Event::Done(_) => Some(DONE),
            Event::WriteDecoded(_)
            | Event::FlushDecoded(_)
            | Event::DataArrived(_)
            | Event::Programmed(_) => Some(WRITES),
        }
    }
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
    page: Divisor,
    read_wire: Wire,
    long_reads: LongWay,
    write_wire: Wire,
    /// A read's data are not at the link sooner after its address is at the dies.
    quickest_read: Nanos,
    admission: Admission,
    event_queue: EventQueue<Event, LINES>,
    completed_commands: CompletionQueue,
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
        let quickest_page = parameters.read_fast.min(parameters.read_slow);
        Ssd {
            page: Divisor::new(parameters.page.as_u64()),
            read_wire: Wire::new(parameters.read_link),
            long_reads: LongWay::new(&parameters),
            write_wire: Wire::new(parameters.write_link),
            quickest_read: quickest_page,
            admission: Admission::new(depth),
            event_queue: EventQueue::default(),
            completed_commands: CompletionQueue::default(),
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
            .expect("the event queue names slots in use")
    }

    fn enter(&mut self, now: Time) {
        while let Some(command) = self.admission.enter() {
            self.take_in(now, &command);
        }
    }

    fn take_in(&mut self, now: Time, command: &Command) {
        let slot = self.free_slots.pop();
        let slot = slot.expect("as many slots as the admission lets in");
        self.slots[slot] = Some(Slot {
            command: *command,
            started: now,
        });
        let (pipeline, event) = match command.op {
            DiskOp::Read if self.is_long(command) => {
                (self.long_reads.pipeline, Event::AtDies(slot))
            }
            DiskOp::Read => (self.parameters.read_pipeline, Event::AtDies(slot)),
            DiskOp::Write => (self.parameters.write_pipeline, Event::WriteDecoded(slot)),
            DiskOp::Flush => (self.parameters.write_pipeline, Event::FlushDecoded(slot)),
            DiskOp::Discard => (self.parameters.write_pipeline, Event::Done(slot)),
        };
        self.event_queue.plan(now + pipeline, event);
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::AtDies(slot) => self.read_pages(now, slot),
            Event::PagesRead(slot) => {
                let through = self.read_through_link(now, slot);
                self.pass_link(through, Event::Done(slot));
            }
            Event::WriteDecoded(slot) => {
                let through = self.through_link(now, slot, self.write_wire);
                self.pass_link(through, Event::DataArrived(slot));
            }
            Event::DataArrived(slot) => {
                self.stalled.push_back(slot);
                self.take_into_buffer(now);
            }
            Event::FlushDecoded(slot) => {
                let clean = self.program_all(now).max(self.flush_free);
                self.flush_free = clean + self.parameters.flush;
                self.event_queue.plan(self.flush_free, Event::Done(slot));
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
        let pages = self.page.divide_up(length.as_u64());
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
        self.event_queue.plan(read_by, Event::PagesRead(slot));
    }

    #[expect(clippy::cast_possible_truncation, reason = "below the number of dies")]
    fn random_die(&mut self) -> usize {
        self.die_random.below(self.parameters.dies as u64) as usize
    }

    fn is_long(&self, read: &Command) -> bool {
        read.length.to_bytes() > self.parameters.page
    }

    /// When the data of a read are over the link, if they wait for it from `now` on.
    fn read_through_link(&self, now: Time, slot: usize) -> Time {
        let wire = if self.is_long(&self.slot(slot).command) {
            self.long_reads.wire
        } else {
            self.read_wire
        };
        self.through_link(now, slot, wire)
    }

    /// When a command's data are over the link, if they wait for it from `now` on.
    fn through_link(&self, now: Time, slot: usize, wire: Wire) -> Time {
        let length = self.slot(slot).command.length.to_bytes();
        self.link_free.max(now) + wire.time(length)
    }

    fn pass_link(&mut self, through: Time, then: Event) {
        self.link_free = through;
        self.event_queue.plan(through, then);
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
                self.event_queue.plan(durable, Event::Done(slot));
            }
        }
    }

    fn program(&mut self, now: Time, bytes: Bytes) {
        self.partial -= bytes;
        let done = self.die_free[self.next_die].max(now) + self.parameters.program_time;
        self.die_free[self.next_die] = done;
        self.next_die = (self.next_die + 1) % self.parameters.dies;
        self.programmed_by = self.programmed_by.max(done);
        self.event_queue
            .plan(done, Event::Programmed(bytes.as_u64()));
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
        self.admission.leave();
        self.completed_commands.put(Completion {
            tag: done.command.tag,
            started: done.started,
            time: now,
        });
        self.enter(now);
    }

    fn catch_up(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some((key, event)) = self.event_queue.take_due(self.now) {
            self.happen(key.time(), event);
        }
    }

    /// Before this nothing completes; [`Time::MAX`] if nothing is to happen. The stations of a read
    /// are passed without any effect until its data are over the link.
    fn next_effect(&self) -> Time {
        let at_dies = self.event_queue.next_time_in(AT_DIES);
        let sent = if at_dies == Time::MAX {
            Time::MAX
        } else {
            at_dies + self.quickest_read
        };
        let read = match self.event_queue.next_in(PAGES_READ) {
            Some((time, Event::PagesRead(slot))) => self.read_through_link(time, slot),
            _ => Time::MAX,
        };
        let done = self.event_queue.next_time_in(DONE);
        let write = self.event_queue.next_time_in(WRITES);
        let other = self.event_queue.next_other_time();
        sent.min(read).min(done).min(write).min(other)
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
        self.admission.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        assert_on_disk(&command, self.parameters.capacity);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn data_take_what_they_are_divided_by_the_rate(
            length in prop_oneof![0..1_u64 << 24, any::<u64>()], rate in 1000..1_u64 << 40,
        ) {
            let per_command = Nanos::new(7);
            let wire = Wire::new(Link { per_command, bytes_per_second: rate });
            let exact = (u128::from(length) * 1_000_000_000).div_ceil(u128::from(rate));
            prop_assume!(exact < 1 << 63);
            let time = wire.time(Bytes::new(length)) - per_command;
            prop_assert_eq!(u128::from(time.as_nanos()), exact);
        }
    }
}
