//! Processes: each submits accesses as its job says, as many at a time as it keeps in flight, and
//! goes on when they are answered.
//!
//! A process that sleeps for want of a free request or tag takes no answers: what the disk has done
//! meanwhile stays among its accesses, as it does with a program over libaio or `io_uring`.

use std::collections::VecDeque;

use super::ProcessOutcome;
use super::access::Access;
use super::event_queue::{EventQueue, PlannedEvent};
use super::outcome::{Flow, Latencies};
use super::read_ahead::ReadAhead;
use super::source::Source;
use crate::random::Random;
use crate::request::{IoPriority, Op, ProcessId};
use crate::units::{Bytes, Nanos, Sectors, Time};
use crate::workload::{self, Job};

/// How far a process is that makes sure that what it wrote is on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    /// Dirty pages are on their way to the disk.
    Writing { since: Time },
    /// The disk flushes.
    Flushing { since: Time },
}

/// An access that the disk has done.
#[derive(Debug, Clone, Copy)]
struct Answer {
    is_write: bool,
    length: Sectors,
    submitted: Time,
    entered: Time,
    issued: Time,
    completed: Time,
}

impl Answer {
    /// It is made where it will stand: a copy would have to wait until all of it is written.
    #[inline(always)]
    fn of(access: &Access, issued: Time, completed: Time) -> Answer {
        Answer {
            is_write: access.op.is_write(),
            length: access.length,
            submitted: access.submitted,
            entered: access.entered.min(issued), // a bio that was split off may enter after that
            issued,
            completed,
        }
    }
}

pub(super) struct Process {
    pub(super) id: ProcessId,
    /// Where it runs.
    pub(super) cpu: u16,
    pub(super) job: Job,
    source: Source,
    began: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) in_flight: usize,
    /// It sleeps in the block layer, for want of a free request or tag.
    asleep: bool,
    /// Answers, the oldest first: it takes one when it needs its place for the next access, and all once
    /// it has submitted what it has.
    untaken: VecDeque<Answer>,
    /// So many of them, the oldest, came or stayed while it slept.
    slept_over: usize,
    submitted: Bytes,
    wake_planned: Option<Time>,
    /// It goes on once there is [room](super::room).
    pub(super) waits_for_room: bool,
    /// It copies into the page cache until then.
    pub(super) busy_until: Time,
    /// A write that waits until less is dirty, or a read that waits for its pages.
    pub(super) held_back: Option<(Time, workload::Access)>,
    /// Writes since it synced last.
    writes: u64,
    pub(super) read_ahead: ReadAhead,
    priorities: Random,
    pub(super) sync: Option<Sync>,
    pub(super) synced_at_end: bool,
    last_completion: Time,
    read: Flow,
    write: Flow,
    syncs: Latencies,
}

impl Process {
    pub(super) fn new(index: usize, cpu: u16, job: Job, source: Source) -> Process {
        Process {
            id: ProcessId::of_index(index),
            cpu,
            source,
            job,
            began: None,
            ended: None,
            in_flight: 0,
            asleep: false,
            untaken: VecDeque::new(),
            slept_over: 0,
            submitted: Bytes::ZERO,
            wake_planned: None,
            waits_for_room: false,
            busy_until: Time::ZERO,
            held_back: None,
            writes: 0,
            read_ahead: ReadAhead::default(),
            priorities: Random::new(index as u64, "priorities"),
            sync: None,
            synced_at_end: false,
            last_completion: Time::ZERO,
            read: Flow::default(),
            write: Flow::default(),
            syncs: Latencies::default(),
        }
    }

    /// It goes on at this time, if it does not before.
    #[inline]
    pub(super) fn wake_at(&mut self, time: Time, index: usize, event_queue: &mut EventQueue) {
        if self.wake_planned.is_none_or(|planned| time < planned) {
            self.wake_planned = Some(time);
            event_queue.plan(time, PlannedEvent::Wake(index));
        }
    }

    /// An access is answered, which the process notices then: it is counted. Returns for how long
    /// the process thinks before it goes on; nothing if it does not go on for that.
    #[inline]
    pub(super) fn answered(
        &mut self,
        now: Time,
        noticed: Time,
        issued: Time,
        access: &Access,
    ) -> Option<Nanos> {
        self.in_flight -= 1;
        self.last_completion = now;
        // The next access needs the place of the only answer; and who arrives waits for each.
        let is_next = self.untaken.is_empty() && self.in_flight + 1 >= self.job.depth;
        if (is_next && !self.asleep) || self.arrives() {
            self.take(now, &Answer::of(access, issued, now));
        } else {
            self.keep(access, issued, now);
        }
        let pause = self.source.answered(noticed, &self.job, self.in_flight);
        pause.filter(|_| self.sync.is_none())
    }

    /// It takes the answer to an access, which is counted.
    #[inline]
    fn take(&mut self, now: Time, answer: &Answer) {
        if !self.counts(now) {
            return;
        }
        let flow = if answer.is_write {
            &mut self.write
        } else {
            &mut self.read
        };
        flow.bytes += answer.length.to_bytes();
        let before = (answer.entered - answer.submitted) + (now - answer.completed);
        let queue = answer.issued - answer.entered;
        let service = answer.completed - answer.issued;
        flow.latencies.add(before, queue, service);
    }

    /// It takes the answer later.
    #[inline(never)]
    fn keep(&mut self, access: &Access, issued: Time, completed: Time) {
        let answer = Answer::of(access, issued, completed);
        self.untaken.push_back(answer);
        self.slept_over += usize::from(self.asleep);
    }

    /// It takes answers until it has fewer than so many accesses, answered or not.
    #[inline]
    pub(super) fn take_until_fewer(&mut self, now: Time, accesses: usize) {
        while self.in_flight + self.untaken.len() >= accesses
            && let Some(answer) = self.untaken.pop_front()
        {
            if self.slept_over > 0 {
                self.slept_over -= 1;
                self.take(now, &answer);
            } else {
                self.take(answer.completed, &answer); // it was told at once
            }
        }
    }

    /// It has submitted what it could: either it sleeps in the block layer, or it takes all answers.
    #[inline]
    pub(super) fn finish_submitting(&mut self, now: Time, asleep: bool) {
        self.asleep = asleep;
        if asleep {
            self.slept_over = self.untaken.len();
        } else {
            self.take_until_fewer(now, 0);
        }
    }

    /// Its accesses arrive by themselves.
    pub(super) fn arrives(&self) -> bool {
        matches!(self.source, Source::Arriving { .. })
    }

    /// No more accesses arrive. True if it waits for none either.
    pub(super) fn end_arrivals(&mut self) -> bool {
        self.source = Source::Arriving { over: true };
        self.in_flight == 0
    }

    /// What is answered now counts: the time before that is over.
    #[inline]
    fn counts(&self, now: Time) -> bool {
        self.job.ramp == Nanos::ZERO || self.began.is_some_and(|began| now >= began + self.job.ramp)
    }

    /// The I/O priority of the next access, which is to do this.
    #[inline]
    pub(super) fn priority_of(&mut self, op: Op) -> IoPriority {
        let (shares, other) = self.job.other_priority;
        let share = shares[usize::from(op.is_write())];
        if share > 0 && self.priorities.below(100) < u64::from(share) {
            other
        } else {
            self.job.priority
        }
    }

    /// An access went through the page cache; it was asked for at `since`, and the process copies until
    /// `until`.
    pub(super) fn cached(&mut self, since: Time, until: Time, access: &workload::Access) {
        self.busy_until = until;
        self.last_completion = until;
        if self.counts(until) {
            let flow = if access.op.is_write() {
                &mut self.write
            } else {
                &mut self.read
            };
            flow.bytes += access.length.to_bytes();
            flow.latencies.add(Nanos::ZERO, Nanos::ZERO, until - since);
        }
        let pause = self.source.answered(until, &self.job, self.in_flight);
        self.busy_until = until + pause.unwrap_or(Nanos::ZERO);
    }

    /// The flush that it waited for is done.
    pub(super) fn flushed(&mut self, now: Time) {
        let Some(Sync::Flushing { since }) = self.sync.take() else {
            unreachable!("it waited for a flush");
        };
        self.last_completion = now;
        self.busy_until = self.busy_until.max(now + self.job.sync.pause);
        self.syncs.add(Nanos::ZERO, Nanos::ZERO, now - since);
    }

    pub(super) fn has_more(&self, now: Time) -> bool {
        let began = self.began.expect("it runs");
        let runtime = self.job.runtime.map(|runtime| self.job.ramp + runtime);
        let in_time = runtime.is_none_or(|runtime| now < began + runtime);
        in_time
            && self.source.has_more()
            && self.job.amount.is_none_or(|amount| self.submitted < amount)
    }

    /// It syncs before it makes another access: a sync takes a place among those in flight.
    pub(super) fn may_begin_sync(&self) -> bool {
        self.is_to_sync() && self.sync.is_none() && self.in_flight < self.job.depth
    }

    /// It syncs before it does anything else.
    fn is_to_sync(&self) -> bool {
        let each_write = self.job.sync.each_write && self.writes > 0;
        each_write
            || self
                .job
                .sync
                .every
                .is_some_and(|every| self.writes >= every)
    }

    /// It has done everything, and syncs a last time.
    pub(super) fn is_to_sync_at_end(&self) -> bool {
        self.job.sync.at_end && !self.synced_at_end
    }

    pub(super) fn begins_sync(&mut self, now: Time) {
        self.writes = 0;
        self.sync = Some(Sync::Writing { since: now });
    }

    /// It waits for a sync, or with a write.
    #[inline]
    pub(super) fn is_held_up(&self) -> bool {
        self.sync.is_some() || self.held_back.is_some()
    }

    /// When it may make its next access, if nothing has to happen before.
    #[inline(always)]
    pub(super) fn due(&mut self, now: Time) -> Option<Time> {
        let waits = self.is_held_up() || self.is_to_sync();
        if waits || !self.has_more(now) {
            return None;
        }
        let due = self.source.due(now, &self.job, self.in_flight)?;
        Some(due.max(self.busy_until))
    }

    /// The access that is due.
    #[inline]
    pub(super) fn next(&mut self) -> workload::Access {
        let access = self.source.next(&self.job);
        self.submitted += access.length.to_bytes();
        self.writes += u64::from(access.op.is_write());
        access
    }

    /// True if this wake-up is the one that counts: then the process runs from now on.
    pub(super) fn wakes(&mut self, now: Time) -> bool {
        if self.ended.is_some() || self.wake_planned.is_none_or(|planned| planned > now) {
            return false; // woken before, by something sooner
        }
        self.wake_planned = None;
        self.begin(now);
        true
    }

    /// It runs from now on, if it does not yet.
    pub(super) fn begin(&mut self, now: Time) {
        if self.began.is_none() {
            self.began = Some(now);
            self.source.begin(now);
        }
    }

    pub(super) fn outcome(mut self, now: Time) -> ProcessOutcome {
        self.take_until_fewer(now, 0);
        for latencies in [
            &mut self.read.latencies,
            &mut self.write.latencies,
            &mut self.syncs,
        ] {
            latencies.end();
        }
        let began = self.began.unwrap_or(Time::ZERO);
        let end = self.ended.map_or(now, |_| self.last_completion);
        ProcessOutcome {
            elapsed: end.saturating_since(began + self.job.ramp),
            name: self.job.name,
            read: self.read,
            write: self.write,
            syncs: self.syncs,
        }
    }
}
