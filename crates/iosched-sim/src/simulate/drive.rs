//! The disk, what the driver has given to it, and the account of what it did.

use std::collections::VecDeque;

use super::HostTimes;
use super::event_queue::{EventQueue, PlannedEvent};
use super::outcome::DiskUse;
use super::page_cache::PAGE;
use crate::block_layer::FLUSH;
use crate::disk::{Command, Completion, DiskModel, DiskOp};
use crate::request::Request;
use crate::units::{Nanos, Sector, Time};

pub(super) struct Drive {
    disk: Box<dyn DiskModel>,
    /// From the end of a command in the drive to its completion in the block layer.
    completion_delay: Nanos,
    /// Completions are at least so far apart; the next is not before this.
    completion_gap: Nanos,
    /// For each page of a write on its way.
    per_page: Nanos,
    /// Writes whose data are on their way, in order, and when the way is free.
    coming: VecDeque<Command>,
    way_free: Time,
    next_completion: Time,
    completions: Vec<Completion>,
    /// Commands that have not completed in the block layer.
    in_flight: usize,
    /// What comes while the disk flushes waits before it until the flush is done.
    flushes_alone: bool,
    flushing: bool,
    held: VecDeque<Command>,
    account: DiskUse,
    last_end: Option<Sector>,
    busy_since: Option<Time>,
    /// [`DiskModel::next_event`] after the last call to the disk.
    next_event: Time,
}

impl Drive {
    pub(super) fn new(disk: Box<dyn DiskModel>, host: &HostTimes, flushes_alone: bool) -> Drive {
        Drive {
            disk,
            completion_delay: host.completion,
            completion_gap: host.completion_gap,
            per_page: host.page_to_drive,
            coming: VecDeque::new(),
            way_free: Time::ZERO,
            next_completion: Time::ZERO,
            completions: Vec::new(),
            in_flight: 0,
            flushes_alone,
            flushing: false,
            held: VecDeque::new(),
            account: DiskUse::default(),
            last_end: None,
            busy_since: None,
            next_event: Time::MAX,
        }
    }

    /// When the disk has something to do; [`Time::MAX`] if it has nothing.
    pub(super) fn next_event(&self) -> Time {
        self.next_event
    }

    fn note_next_event(&mut self) {
        self.next_event = self.disk.next_event().unwrap_or(Time::MAX);
    }

    /// Lets the disk do what is due, and plans the completions of what it finished.
    pub(super) fn advance(&mut self, now: Time, event_queue: &mut EventQueue) {
        self.disk.advance(now, &mut self.completions);
        self.note_next_event();
        for completion in &self.completions {
            let time = completion.time + self.completion_delay;
            let time = time.max(self.next_completion);
            self.next_completion = time + self.completion_gap;
            event_queue.plan(time, PlannedEvent::Completed(completion.tag));
        }
        self.completions.clear();
    }

    /// The driver looked at a request: the next that the disk gets.
    pub(super) fn note_issue(&mut self, request: &Request) {
        self.account.commands += 1;
        self.account.reads += u64::from(!request.op.is_write());
        if let Some(last_end) = self.last_end {
            let distance = last_end.distance(request.start).as_u64();
            self.account.seek_sectors += distance;
            self.account.contiguous += u64::from(distance == 0);
        }
        self.last_end = Some(request.end());
    }

    #[inline]
    pub(super) fn submit(&mut self, now: Time, command: Command, event_queue: &mut EventQueue) {
        self.in_flight += 1;
        self.busy_since.get_or_insert(now);
        if command.op == DiskOp::Write && self.per_page > Nanos::ZERO {
            self.send(now, command, event_queue);
        } else {
            self.arrives(now, command);
        }
    }

    /// A write's data go to the drive, behind those of earlier ones.
    #[inline(never)]
    fn send(&mut self, now: Time, command: Command, event_queue: &mut EventQueue) {
        let pages = command.length.as_u64().div_ceil(PAGE);
        let takes = Nanos::new(pages * self.per_page.as_nanos());
        self.way_free = self.way_free.max(now) + takes;
        self.coming.push_back(command);
        event_queue.plan(self.way_free, PlannedEvent::Arrived);
    }

    /// The data of the first write on its way have reached the drive.
    pub(super) fn arrived(&mut self, now: Time) {
        let command = self.coming.pop_front();
        self.arrives(now, command.expect("a write was on its way"));
    }

    #[inline]
    fn arrives(&mut self, now: Time, command: Command) {
        if self.is_kept_waiting() {
            self.held.push_back(command);
        } else {
            self.give(now, command);
        }
    }

    /// The disk is to do nothing else than the flush that it is at.
    fn is_kept_waiting(&self) -> bool {
        self.flushes_alone && self.flushing
    }

    #[inline]
    fn give(&mut self, now: Time, command: Command) {
        self.flushing |= command.op == DiskOp::Flush;
        self.disk.submit(now, command);
        self.note_next_event();
    }

    /// The command with this tag is completed in the block layer.
    #[inline(always)]
    pub(super) fn completed(&mut self, now: Time, tag: u64) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            let since = self.busy_since.take().expect("it was busy");
            self.account.busy += now - since;
        }
        if tag == FLUSH {
            self.flushed(now);
        }
    }

    fn flushed(&mut self, now: Time) {
        self.flushing = false;
        while !self.is_kept_waiting()
            && let Some(command) = self.held.pop_front()
        {
            self.give(now, command);
        }
    }

    /// The run ends at `now`: what the disk did, and whether it is still at it.
    pub(super) fn end(mut self, now: Time) -> (DiskUse, bool) {
        if let Some(since) = self.busy_since {
            self.account.busy += now.max(since) - since;
        }
        (self.account, self.busy_since.is_some())
    }
}
