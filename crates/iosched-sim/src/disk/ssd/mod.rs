//! Solid-state drives as a queueing model: a fixed way through the electronics, then one of many
//! dies chosen at random, then a link that all commands share.
//!
//! A read of `n` bytes needs `n / page` page reads, each at a die chosen at random and of one of two
//! classes (the page types of multi-level cells). With five numbers this shape gives the measured
//! 4 KiB random-read latencies of a Samsung 980 PRO at depths 1 to 128 within about 10 % (see
//! `docs/disk-models.md`). Drives that are made for reads of a page put longer ones together on another way,
//! which takes longer and passes less ([`LongReads`]). Writes go over the link into a bounded buffer, are acknowledged there if
//! the write cache is on, and are programmed die after die in the order that they came. A flush waits for all
//! programs, then for its own fixed cost.
//!
//! Reads and writes share the link and the drive's command slots, or have their own ([`Paths`]). At a
//! die (`die`) reads go before programs that have not begun; one that has begun they wait for or suspend.
//!
//! Left out: the flash translation layer, garbage collection and erases (so a full drive's slow
//! writes), single-level-cell caches, reads answered from the buffer.

mod die;
mod durable;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::admission::{Admission, CompletionQueue};
use super::{Command, Completion, DiskModel, DiskOp, assert_on_disk};
use crate::event_queue::{EventQueue, Planned};
use crate::random::Random;
use crate::reciprocal::Divisor;
use crate::units::{Bytes, Nanos, Sectors, Time};
use die::{Die, Program, Programming};
use durable::Durability;

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

/// Whether reads and writes meet before the dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paths {
    /// They pass one link in turn and share the drive's command slots: SATA, which is half duplex and has 32
    /// slots for all commands.
    #[default] // of files from before there was a choice
    Shared,
    /// Each direction has a link and command slots to itself: `PCIe` and SAS are full duplex, and `NVMe` puts no
    /// order between commands, so that a read does not wait for writes that wait for the buffer.
    Separate,
}

/// What makes one solid-state drive differ from another.
#[derive(Debug, Clone, PartialEq)]
pub struct SsdParameters {
    /// Of what the host sees, without spare blocks.
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
    /// Link for data written.
    pub write_link: Link,
    /// Whether reads and writes share link and command slots.
    pub paths: Paths,
    /// What one program operation writes.
    pub program: Bytes,
    /// How long it takes.
    pub program_time: Nanos,
    /// Data of several writes are programmed together. Otherwise each write has programs to itself, so that small
    /// ones keep the dies as busy as large ones: what a drive's translation layer costs them, without the layer.
    pub packs_writes: bool,
    /// How long a die takes to suspend a program for a read; nothing if reads wait for its end.
    pub program_suspend: Option<Nanos>,
    /// Buffer for data not yet programmed.
    pub buffer: Bytes,
    /// Writes are acknowledged in the buffer.
    pub write_cache: bool,
    /// Fixed cost of a flush after the last program.
    pub flush: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SsdEvent {
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
    /// This die's program ends, unless reads have put it off meanwhile.
    Programmed(usize),
    /// A command is done.
    Done(usize),
}

/// Lines of the event queue.
const AT_DIES: usize = 0;
const PAGES_READ: usize = 1;
const DONE: usize = 2;
const WRITES: usize = 3;
const LINES: usize = 4;

impl Planned for SsdEvent {
    fn line(&self) -> Option<usize> {
        match self {
            SsdEvent::AtDies(_) => Some(AT_DIES),
            SsdEvent::PagesRead(_) => Some(PAGES_READ),
            SsdEvent::Done(_) => Some(DONE),
            SsdEvent::WriteDecoded(_)
            | SsdEvent::FlushDecoded(_)
            | SsdEvent::DataArrived(_)
            | SsdEvent::Programmed(_) => Some(WRITES),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    command: Command,
    started: Time,
}

/// A flash disk.
#[derive(Debug)]
pub(crate) struct Ssd {
    parameters: SsdParameters,
    page: Divisor,
    read_wire: Wire,
    long_reads: LongWay,
    write_wire: Wire,
    /// A read's data are not at the link sooner after its address is at the dies.
    quickest_read: Nanos,
    /// Reads, or all commands if the paths are shared.
    admission: Admission,
    /// All other commands, if the paths are separate.
    write_admission: Admission,
    event_queue: EventQueue<SsdEvent, LINES>,
    completed_commands: CompletionQueue,
    slots: Vec<Option<Slot>>,
    free_slots: Vec<usize>,
    die_random: Random,
    class_random: Random,
    dies: Vec<Die>,
    programming: Programming,
    /// When the link is free for data read, and for all data if the paths are shared.
    link_free: Time,
    /// When it is free for data written, if the paths are separate.
    write_link_free: Time,
    flush_free: Time,
    /// In the buffer, programmed or not.
    buffered: Bytes,
    /// In the buffer and not yet given to a die: less than one program.
    partial: Bytes,
    /// What is on the medium, and which commands wait for that.
    durability: Durability,
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
    pub(crate) fn new(parameters: SsdParameters, seed: u64) -> Ssd {
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
            write_admission: Admission::new(depth),
            event_queue: EventQueue::default(),
            completed_commands: CompletionQueue::default(),
            slots: vec![None; 2 * depth], // of both paths
            free_slots: (0..2 * depth).rev().collect(),
            die_random: Random::new(seed, "ssd dies"),
            class_random: Random::new(seed, "ssd page classes"),
            dies: (0..parameters.dies).map(|_| Die::default()).collect(),
            programming: Programming::new(parameters.program_time, parameters.program_suspend),
            link_free: Time::ZERO,
            write_link_free: Time::ZERO,
            flush_free: Time::ZERO,
            buffered: Bytes::ZERO,
            partial: Bytes::ZERO,
            durability: Durability::default(),
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

    /// Where a command waits for a slot in the drive.
    fn admission_of(&mut self, op: DiskOp) -> &mut Admission {
        match (self.parameters.paths, op) {
            (Paths::Shared, _) | (_, DiskOp::Read) => &mut self.admission,
            (Paths::Separate, _) => &mut self.write_admission,
        }
    }

    fn enter(&mut self, now: Time, after: DiskOp) {
        while let Some(command) = self.admission_of(after).enter() {
            self.take_in(now, &command);
        }
    }

    /// When the link is free for data of this direction.
    fn link_free_for(&mut self, op: DiskOp) -> &mut Time {
        match (self.parameters.paths, op) {
            (Paths::Shared, _) | (_, DiskOp::Read) => &mut self.link_free,
            (Paths::Separate, _) => &mut self.write_link_free,
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
                (self.long_reads.pipeline, SsdEvent::AtDies(slot))
            }
            DiskOp::Read => (self.parameters.read_pipeline, SsdEvent::AtDies(slot)),
            DiskOp::Write => (self.parameters.write_pipeline, SsdEvent::WriteDecoded(slot)),
            DiskOp::Flush => (self.parameters.write_pipeline, SsdEvent::FlushDecoded(slot)),
            DiskOp::Discard => (self.parameters.write_pipeline, SsdEvent::Done(slot)),
        };
        self.event_queue.plan(now + pipeline, event);
    }

    fn happen(&mut self, now: Time, event: SsdEvent) {
        match event {
            SsdEvent::AtDies(slot) => self.read_pages(now, slot),
            SsdEvent::PagesRead(slot) => {
                let through = self.read_through_link(now, slot);
                self.link_free = through;
                self.event_queue.plan(through, SsdEvent::Done(slot));
            }
            SsdEvent::WriteDecoded(slot) => {
                let length = self.slot(slot).command.length.to_bytes();
                let takes = self.write_wire.time(length);
                let link_free = self.link_free_for(DiskOp::Write);
                let through = (*link_free).max(now) + takes;
                *link_free = through;
                self.event_queue.plan(through, SsdEvent::DataArrived(slot));
            }
            SsdEvent::DataArrived(slot) => {
                self.stalled.push_back(slot);
                self.take_into_buffer(now);
            }
            SsdEvent::FlushDecoded(slot) => {
                self.program_rest(now);
                self.when_durable(now, slot);
            }
            SsdEvent::Programmed(die) => self.programmed(now, die),
            SsdEvent::Done(slot) => self.complete(now, slot),
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
            let done = self.dies[die].read(now, time, &self.programming);
            read_by = read_by.max(done);
        }
        self.event_queue.plan(read_by, SsdEvent::PagesRead(slot));
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
        let length = self.slot(slot).command.length.to_bytes();
        self.link_free.max(now) + wire.time(length)
    }

    /// Writes enter the buffer as they came, while there is room. One that is larger than the whole
    /// buffer enters when it is empty.
    fn take_into_buffer(&mut self, now: Time) {
        while let Some(&slot) = self.stalled.front() {
            let command = self.slot(slot).command;
            let length = command.length.to_bytes();
            if self.buffered > Bytes::ZERO && self.buffered + length > self.parameters.buffer {
                // What is left of the last program would wait for more data for ever.
                self.program_rest(now);
                return;
            }
            self.stalled.pop_front();
            self.buffered += length;
            self.partial += length;
            while self.partial >= self.parameters.program {
                self.program(now, self.parameters.program);
            }
            if !self.parameters.packs_writes {
                self.program_rest(now);
            }
            if self.parameters.write_cache && !command.fua {
                self.complete(now, slot);
            } else {
                self.program_rest(now);
                self.when_durable(now, slot);
            }
        }
    }

    /// Gives data from the buffer to the next die.
    fn program(&mut self, now: Time, bytes: Bytes) {
        self.partial -= bytes;
        let die = self.next_die;
        self.next_die = (die + 1) % self.parameters.dies;
        let program = Program {
            number: self.durability.begin_program(),
            bytes,
        };
        if let Some(end) = self.dies[die].program(now, program, &self.programming) {
            self.event_queue.plan(end, SsdEvent::Programmed(die));
        }
    }

    /// Gives what is left in the buffer, less than a whole program, to a die.
    fn program_rest(&mut self, now: Time) {
        if self.partial > Bytes::ZERO {
            self.program(now, self.partial);
        }
    }

    /// A die's program was to end now.
    fn programmed(&mut self, now: Time, die: usize) {
        let (programmed, next_end) = self.dies[die].ends(now, &self.programming);
        if let Some(end) = next_end {
            self.event_queue.plan(end, SsdEvent::Programmed(die));
        }
        let Some(program) = programmed else {
            return; // reads have put it off
        };
        self.buffered -= program.bytes;
        self.durability.end_program(program.number);
        while let Some(slot) = self.durability.next_durable() {
            self.plan_done(now, slot);
        }
        self.take_into_buffer(now);
    }

    /// The command, a write or a flush, is done once all that was given to the dies is on the medium.
    fn when_durable(&mut self, now: Time, slot: usize) {
        if self.durability.is_clean() {
            self.plan_done(now, slot);
        } else {
            self.durability.wait(slot);
        }
    }

    fn plan_done(&mut self, now: Time, slot: usize) {
        let done = if self.slot(slot).command.op == DiskOp::Flush {
            self.flush_free = self.flush_free.max(now) + self.parameters.flush;
            self.flush_free
        } else {
            now
        };
        self.event_queue.plan(done, SsdEvent::Done(slot));
    }

    fn complete(&mut self, now: Time, slot: usize) {
        let done = self.slots[slot].take().expect("a command completes once");
        self.free_slots.push(slot);
        self.admission_of(done.command.op).leave();
        self.completed_commands.put(Completion {
            tag: done.command.tag,
            started: done.started,
            time: now,
        });
        self.enter(now, done.command.op);
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
            Some((time, SsdEvent::PagesRead(slot))) => self.read_through_link(time, slot),
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
        let admission = self.admission_of(command.op);
        if admission.passes() {
            self.take_in(self.now, &command);
        } else {
            admission.arrive(command);
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
