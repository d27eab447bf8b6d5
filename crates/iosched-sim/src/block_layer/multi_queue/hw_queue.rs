//! A hardware queue of the multi-queue block layer: its dispatch list, when it asks the scheduler for
//! requests, and when it is run again.
//!
//! Follows `block/blk-mq-sched.c` and `block/blk-mq.c` (Linux 6.1 to 6.12). A run issues the dispatch
//! list; only when the device has taken all of that is the scheduler asked, for one request or, if the
//! device was not busy recently, for as many as there is room for; these are issued, and the scheduler
//! is asked again. A run consists of steps ([`Next`]): the driver performs one, reports its result and
//! gets the next. In a recording other events may come between two steps.

use std::collections::VecDeque;

use crate::request::RequestId;
use crate::scheduler::{Kernel, Rule};
use crate::units::Time;

/// How the multi-queue block layer knows that a device has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attachment {
    /// By its tags only: the next request is dispatched before there is room (loop, virtio, `NVMe`).
    #[default]
    TagOnly,
    /// The scheduler is asked only when the device has a slot (SCSI, SATA).
    Budget,
}

/// Commands that a device takes at a time, and how the block layer knows.
#[derive(Debug, Clone, Copy)]
pub struct Depth {
    /// How the block layer knows.
    pub attachment: Attachment,
    /// How many.
    pub commands: usize,
}

impl Depth {
    /// The device takes another command beside those that it has.
    pub fn has_room(self, in_flight: usize) -> bool {
        in_flight < self.commands
    }

    /// The scheduler may be asked while so many requests that it dispatched have not completed: a budget is
    /// a slot of the device, and the tag is looked for only after the choice.
    fn has_budget(self, outstanding: usize) -> bool {
        self.attachment == Attachment::TagOnly || outstanding < self.commands
    }

    /// The last of so many requests, dispatched and not completed, found no tag.
    pub fn lacks_tag(self, outstanding: usize) -> bool {
        self.attachment == Attachment::TagOnly && outstanding > self.commands
    }
}

/// What a run does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Issue the dispatch list.
    Issue,
    /// Ask the scheduler, if it has work and there is a budget.
    Dispatch,
    /// Nothing.
    End,
}

/// A hardware queue with its dispatch list.
#[derive(Debug, Clone, Default)]
pub struct HwQueue {
    /// Commands that the device has from it.
    pub in_flight: usize,
    /// Dispatched, and not yet taken by the device: the first goes first (`hctx->dispatch`).
    pub dispatch: VecDeque<RequestId>,
    /// Requests that this run has dispatched and not issued yet.
    batch: usize,
    /// How often the device had no room, of late: a moving average with a weight of 1/8, in integers 9 at the most
    /// (`dispatch_busy`).
    busy: u32,
    /// The next completion runs it (`BLK_MQ_S_SCHED_RESTART`).
    restart: bool,
    /// When a worker runs it, if that was planned.
    delayed_run: Option<Time>,
}

impl HwQueue {
    /// Requests that were dispatched and have not completed.
    pub fn outstanding(&self) -> usize {
        self.in_flight + self.dispatch.len()
    }

    // ---- a run ---------------------------------------------------------------------------

    /// It is run. What waits before the device goes first, and makes the next completion run it again.
    pub fn begin_run(&mut self) -> Next {
        self.batch = 0;
        if self.dispatch.is_empty() {
            return Next::Dispatch;
        }
        self.restart = true;
        Next::Issue
    }

    /// The device had no room for what is left of the dispatch list.
    pub fn list_blocked(&mut self) -> Next {
        self.note_busy(true);
        self.restart = true;
        Next::End
    }

    /// The device took the last request of the dispatch list, if there was `any` in it.
    ///
    /// When a batch was issued, a worker goes on with the run where the driver has one, as a loop
    /// device does: woken for them, it takes the processor from the process that ran the queue
    /// (`need_resched` in `blk_mq_do_dispatch_sched`). It goes on now, and not when a run was planned.
    pub fn list_issued(&mut self, depth: Depth, any: bool) -> Next {
        if any {
            self.note_busy(false);
        }
        if self.batch > 0 && depth.attachment == Attachment::TagOnly {
            self.delayed_run = None;
        }
        self.batch = 0;
        Next::Dispatch
    }

    /// The scheduler may be asked, of which so many choices have not completed; if there is no budget
    /// for another one, the next completion runs the queue.
    pub fn take_budget(&mut self, depth: Depth, outstanding: usize) -> bool {
        let has_budget = depth.has_budget(outstanding);
        self.restart |= !has_budget;
        has_budget
    }

    /// The scheduler dispatched a request, which stands in a dispatch list now, and `lacks_tag` or does not.
    /// A device that had no room of late is given one at a time.
    pub fn dispatched_one(&mut self, lacks_tag: bool) -> Next {
        self.batch += 1;
        if lacks_tag || self.is_busy() {
            Next::Issue
        } else {
            Next::Dispatch
        }
    }

    /// The scheduler has no work, or there is no budget.
    pub fn batch_ends(&self) -> Next {
        if self.batch > 0 {
            Next::Issue
        } else {
            Next::End
        }
    }

    /// The scheduler had work, and dispatched nothing. If that is all that came of it, it is asked again some
    /// ticks later, or when that was planned already.
    pub fn dispatched_nothing(&mut self, kernel: &Kernel, now: Time) -> Next {
        if self.batch == 0 && self.delayed_run.is_none() {
            self.delayed_run = Some(kernel.delayed_run_at(now));
        }
        self.batch_ends()
    }

    /// The device had no room of late.
    pub fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// The device gave a request back that had been issued. The queue is run again when a command of
    /// its own has completed or, as it may not have any, after some ticks.
    pub fn requeued(&mut self, kernel: &Kernel, now: Time) {
        self.restart = true;
        self.delayed_run = Some(kernel.delayed_run_at(now));
    }

    /// Updates `dispatch_busy` by whether the device had room now.
    pub fn note_busy(&mut self, busy: bool) {
        self.busy = (7 * self.busy + if busy { 16 } else { 0 }) / 8;
    }

    // ---- when it is run ------------------------------------------------------------------

    /// A process inserted a request outside of a plug: unless its bio has one of its own, a worker runs the queue.
    pub fn inserted_alone(&mut self, kernel: &Kernel) {
        if self.delayed_run.is_some() && !kernel.follows(Rule::BioInPlug) {
            self.delayed_run = None;
        }
    }

    /// The next completion runs it.
    pub fn mark_restart(&mut self) {
        self.restart = true;
    }

    /// A command completed: true if that runs the queue.
    pub fn take_restart(&mut self) -> bool {
        std::mem::take(&mut self.restart)
    }

    /// When a worker runs it, if that was planned.
    pub fn delayed_run(&self) -> Option<Time> {
        self.delayed_run
    }

    /// A worker runs it then at the latest.
    pub fn run_by(&mut self, at: Time) {
        self.delayed_run = Some(self.delayed_run.map_or(at, |planned| planned.min(at)));
    }

    /// A worker runs it now, in place of one that was planned for later.
    pub fn worker_runs(&mut self) {
        self.delayed_run = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::KernelVersion;
    use crate::units::Nanos;

    const LOOP: Depth = Depth {
        attachment: Attachment::TagOnly,
        commands: 4,
    };
    const SCSI: Depth = Depth {
        attachment: Attachment::Budget,
        commands: 4,
    };

    fn kernel() -> Kernel {
        Kernel {
            hz: 250,
            ..Kernel::default()
        }
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Nanos::from_millis(millis)
    }

    #[test]
    fn a_device_that_had_no_room_once_is_busy_until_two_lists_were_issued() {
        let mut queue = HwQueue::default();
        queue.list_blocked();
        let busy_after = |_| {
            queue.list_issued(SCSI, true);
            queue.is_busy()
        };
        assert_eq!([0; 3].map(busy_after), [true, false, false]);
        for _ in 0..100 {
            queue.list_blocked();
        }
        assert_eq!(queue.busy, 9, "eighths are rounded down");
    }

    #[test]
    fn without_a_budget_one_request_more_is_dispatched_than_the_device_takes() {
        let mut queue = HwQueue::default();
        let mut most = |depth: Depth| {
            let may_go_on = |&outstanding: &usize| {
                !depth.lacks_tag(outstanding) && queue.take_budget(depth, outstanding)
            };
            (0..10).take_while(may_go_on).count()
        };
        assert_eq!((most(LOOP), most(SCSI)), (5, 4));
    }

    #[test]
    fn a_completion_runs_the_queue_if_a_budget_was_lacking_or_a_request_waited() {
        let mut queue = HwQueue::default();
        assert!(queue.take_budget(SCSI, 3) && !queue.take_restart());
        assert!(!queue.take_budget(SCSI, 4) && queue.take_restart());
        queue.begin_run();
        assert!(!queue.take_restart(), "once is enough");
        queue.list_blocked();
        assert!(queue.take_restart());
    }

    #[test]
    fn a_run_that_dispatched_nothing_is_repeated_at_the_edge_of_a_tick() {
        let mut queue = HwQueue::default();
        assert_eq!(queue.begin_run(), Next::Dispatch);
        assert_eq!(queue.dispatched_nothing(&kernel(), at(1)), Next::End);
        queue.dispatched_nothing(&kernel(), at(5));
        assert_eq!(queue.delayed_run(), Some(at(8)), "what is planned stays");
        queue.requeued(&kernel(), at(5));
        assert_eq!(queue.delayed_run(), Some(at(12)));
        queue.worker_runs();
        assert_eq!(queue.delayed_run(), None);
    }

    #[test]
    fn a_worker_runs_what_was_inserted_without_a_plug_up_to_6_9() {
        let planned_after = |minor| {
            let version = KernelVersion::new(6, minor);
            let mut queue = HwQueue::default();
            queue.dispatched_nothing(&kernel(), at(1));
            queue.inserted_alone(&Kernel {
                version,
                ..kernel()
            });
            queue.delayed_run().is_some()
        };
        assert_eq!(
            [1, 9, 10, 18].map(planned_after),
            [false, false, true, true]
        );
    }
}
