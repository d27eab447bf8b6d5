//! Solid-state drives as a queueing model: a fixed way through the electronics, then one of many
//! dies chosen at random, then a link that all commands share.
//!
//! A read of `n` bytes needs `n / page` page reads, each at a die chosen at random and of one of two
//! classes (the page types of multi-level cells). With five numbers this shape gives the measured
//! 4 KiB random-read latencies of a Samsung 980 PRO at depths 1 to 128 within about 10 % (see
//! `results/disk-models.md`). Drives that are made for reads of a page put longer ones together on another way,
//! which takes longer and passes less ([`SsdParameters::long_read_rate`]). Writes go over the link into a bounded buffer, are acknowledged there if
//! the write cache is on, and are programmed die after die in the order that they came. A flush waits for all
//! programs, then for its own fixed cost.
//!
//! Reads and writes share the link and the drive's command slots, or have their own ([`Paths`]). At a
//! die (`die`) reads go before programs that have not begun, and wait for one that has.
//!
//! Left out: the flash translation layer, garbage collection and erases (so a full drive's slow
//! writes), single-level-cell caches, reads answered from the buffer.

mod die;
mod durable;

use std::collections::VecDeque;

use serde::Deserialize;

use super::admission::{Admission, CompletionQueue};
use super::values::{Millis, Rate, bytes, whole};
use super::{Command, Completion, DiskModel, DiskOp, Interface, assert_on_disk};
use crate::event_queue::{EventQueue, Planned};
use crate::random::Random;
use crate::reciprocal::Divisor;
use crate::units::{Bytes, Nanos, Sectors, Time};
use die::{Die, Program};
use durable::Durability;

/// A shared way for data: each transfer takes `per_command + length / bytes_per_second`.
#[derive(Debug, Clone, Copy)]
struct Wire {
    /// Fixed part, during which nothing else passes.
    per_command: Nanos,
    /// Rate of the rest.
    bytes_per_second: Divisor,
}

impl Wire {
    fn new(per_command: Millis, rate: Rate) -> Wire {
        Wire {
            per_command: *per_command,
            bytes_per_second: Divisor::new(rate.0),
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
#[derive(Debug, Clone, Copy)]
struct LongWay {
    pipeline: Nanos,
    wire: Wire,
}

impl LongWay {
    fn new(parameters: &SsdParameters) -> LongWay {
        let longer = parameters.long_read_pipeline.unwrap_or_default();
        let rate = parameters
            .long_read_rate
            .unwrap_or(parameters.read_link_rate);
        LongWay {
            pipeline: *parameters.read_pipeline + *longer,
            wire: Wire::new(parameters.read_link_per_command, rate),
        }
    }
}

/// Whether reads and writes meet before the dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
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

/// What makes one solid-state drive differ from another: `[ssd]` of a model's file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdParameters {
    /// Without spare blocks.
    #[serde(skip)]
    pub interface: Interface,
    /// Dies that work side by side. An array has up to 256 drives, and each die has its own queue.
    #[serde(deserialize_with = "whole::<_, _, 1, 1024>")]
    pub dies: usize,
    /// Electronics on the way of a read, without any queueing.
    #[serde(rename = "read_pipeline_ms")]
    pub read_pipeline: Millis,
    /// What one page read brings.
    #[serde(rename = "page_bytes", deserialize_with = "bytes::<_, 512>")]
    pub page: Bytes,
    /// Page read time of the fast class.
    #[serde(rename = "read_fast_ms")]
    pub read_fast: Millis,
    /// Page read time of the slow class.
    #[serde(rename = "read_slow_ms")]
    pub read_slow: Millis,
    /// Share of the fast class, in thousandths.
    #[serde(deserialize_with = "whole::<_, _, 0, 1000>")]
    pub read_fast_permille: u64,
    /// Of each command's data on the link, before any that is read passes.
    #[serde(rename = "read_link_per_command_ms")]
    pub read_link_per_command: Millis,
    /// Rate of data read.
    #[serde(rename = "read_link_bytes_per_second")]
    pub read_link_rate: Rate,
    /// What the electronics take longer for a read longer than a page, if those differ.
    #[serde(rename = "long_read_pipeline_ms")]
    pub long_read_pipeline: Option<Millis>,
    /// Rate of its data on the link.
    #[serde(rename = "long_read_bytes_per_second")]
    pub long_read_rate: Option<Rate>,
    /// Electronics on the way of a write, a discard or a flush.
    #[serde(rename = "write_pipeline_ms")]
    pub write_pipeline: Millis,
    /// Of each command's data on the link, before any that is written passes.
    #[serde(rename = "write_link_per_command_ms")]
    pub write_link_per_command: Millis,
    /// Rate of data written.
    #[serde(rename = "write_link_bytes_per_second")]
    pub write_link_rate: Rate,
    /// Whether reads and writes share link and command slots.
    #[serde(default)]
    pub paths: Paths,
    /// What one program operation writes.
    #[serde(rename = "program_bytes", deserialize_with = "bytes::<_, 512>")]
    pub program: Bytes,
    /// How long it takes.
    #[serde(rename = "program_ms")]
    pub program_time: Millis,
    /// Data of several writes are programmed together. Otherwise each write has programs to itself, so that small
    /// ones keep the dies as busy as large ones: what a drive's translation layer costs them, without the layer.
    #[serde(default = "packs")]
    pub packs_writes: bool,
    /// Buffer for data not yet programmed.
    #[serde(rename = "buffer_bytes", deserialize_with = "bytes::<_, 512>")]
    pub buffer: Bytes,
    /// Fixed cost of a flush after the last program.
    #[serde(rename = "flush_ms")]
    pub flush: Millis,
}

/// As files say that were written before there was a choice.
fn packs() -> bool {
    true
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
            parameters.dies > 0 && parameters.interface.queue_depth > 0,
            "a drive without dies or queue"
        );
        assert!(
            parameters.page > Bytes::ZERO && parameters.program > Bytes::ZERO,
            "empty pages"
        );
        let depth = parameters.interface.queue_depth;
        let quickest_page = parameters.read_fast.min(*parameters.read_slow);
        Ssd {
            page: Divisor::new(parameters.page.as_u64()),
            read_wire: Wire::new(parameters.read_link_per_command, parameters.read_link_rate),
            long_reads: LongWay::new(&parameters),
            write_wire: Wire::new(
                parameters.write_link_per_command,
                parameters.write_link_rate,
            ),
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
            DiskOp::Read => (*self.parameters.read_pipeline, SsdEvent::AtDies(slot)),
            DiskOp::Write => (
                *self.parameters.write_pipeline,
                SsdEvent::WriteDecoded(slot),
            ),
            DiskOp::Flush => (
                *self.parameters.write_pipeline,
                SsdEvent::FlushDecoded(slot),
            ),
            DiskOp::Discard => (*self.parameters.write_pipeline, SsdEvent::Done(slot)),
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
            let done = self.dies[die].read(now, *time, *self.parameters.program_time);
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
            if self.parameters.interface.write_cache && !command.fua {
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
        if let Some(end) = self.dies[die].program(now, program, *self.parameters.program_time) {
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
        let (programmed, next_end) = self.dies[die].ends(now, *self.parameters.program_time);
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
            self.flush_free = self.flush_free.max(now) + *self.parameters.flush;
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
}

impl DiskModel for Ssd {
    fn capacity(&self) -> Sectors {
        self.parameters.interface.capacity
    }

    fn queue_depth(&self) -> usize {
        self.admission.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        assert_on_disk(&command, self.parameters.interface.capacity);
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
            let wire = Wire::new(Millis(per_command), Rate(rate));
            let exact = (u128::from(length) * 1_000_000_000).div_ceil(u128::from(rate));
            prop_assume!(exact < 1 << 63);
            let time = wire.time(Bytes::new(length)) - per_command;
            prop_assert_eq!(u128::from(time.as_nanos()), exact);
        }
    }
}
