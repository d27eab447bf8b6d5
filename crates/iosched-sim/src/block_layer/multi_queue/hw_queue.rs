//! A hardware queue of the multi-queue block layer: what stands before the device, when the scheduler
//! is asked, and when the queue is run again.
//!
//! Follows `block/blk-mq-sched.c` and `block/blk-mq.c` (Linux 6.1 to 6.12). A run issues the dispatch
//! list; only when the device has taken all of that is the scheduler asked, for one request or, if the
//! device was not busy of late, for as many as there is room for; these are issued, and the scheduler
//! is asked again. A driver goes through these steps and says what came of each.

use std::collections::VecDeque;

use crate::request::RequestId;
use crate::scheduler::Kernel;
use crate::units::Time;

/// How the multi-queue block layer knows that a device has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attachment {
    /// By its tags only: the next request is chosen before there is room (loop, virtio, `NVMe`).
    #[default]
    LookAhead,
    /// The scheduler is asked only when the device has a slot (SCSI, SATA).
    Budget,
}

/// Commands that a device takes at a time, and how the block layer knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depth {
    pub(crate) attachment: Attachment,
    pub(crate) commands: usize,
}

impl Depth {
    /// The device takes another command beside those that it has.
    pub(crate) fn has_room(self, in_flight: usize) -> bool {
        in_flight < self.commands
    }

    /// The scheduler may be asked while so many requests that it chose have not completed: a budget is
    /// a slot of the device, and the tag is looked for only after the choice.
    fn has_budget(self, chosen: usize) -> bool {
        self.attachment == Attachment::LookAhead || chosen < self.commands
    }

    /// The last of so many requests, chosen and not completed, found no tag.
    pub(crate) fn lacks_tag(self, chosen: usize) -> bool {
        self.attachment == Attachment::LookAhead && chosen > self.commands
    }
}

/// See the [module's page](self).
#[derive(Debug, Default)]
pub(crate) struct HwQueue {
    /// Commands that the device has from it.
    pub(crate) in_flight: usize,
    /// Chosen, and not yet taken by the device: the first goes first (`hctx->dispatch`).
    pub(crate) dispatch: VecDeque<RequestId>,
    /// How often the device had no room, of late: from 0 to 16 (`dispatch_busy`).
    busy: u32,
    /// The next completion runs it (`BLK_MQ_S_SCHED_RESTART`).
    restart: bool,
    /// When a worker runs it, if that was planned.
    delayed_run: Option<Time>,
}

impl HwQueue {
    /// Requests that were chosen and have not completed.
    pub(crate) fn chosen(&self) -> usize {
        self.in_flight + self.dispatch.len()
    }

    // ---- a run ---------------------------------------------------------------------------

    /// It is run. What waits before the device goes first, and makes the next completion run it again.
    pub(crate) fn begin_run(&mut self) {
        self.restart |= !self.dispatch.is_empty();
    }

    /// The device took the last request of the dispatch list.
    pub(crate) fn list_issued(&mut self) {
        self.note_busy(false);
    }

    /// The device had no room for what is left of the dispatch list.
    pub(crate) fn list_blocked(&mut self) {
        self.note_busy(true);
        self.restart = true;
    }

    /// A worker goes on with a run in which requests were issued, where the driver has one, as a loop
    /// device does: woken for them, it takes the processor from the process that ran the queue
    /// (`need_resched` in `blk_mq_do_dispatch_sched`). It goes on now, and not when a run was planned.
    pub(crate) fn worker_goes_on(&mut self, depth: Depth) {
        if depth.attachment == Attachment::LookAhead {
            self.delayed_run = None;
        }
    }

    /// The scheduler may be asked, of which so many choices have not completed; if there is no budget
    /// for another one, the next completion runs the queue.
    pub(crate) fn take_budget(&mut self, depth: Depth, chosen: usize) -> bool {
        let has_budget = depth.has_budget(chosen);
        self.restart |= !has_budget;
        has_budget
    }

    /// The scheduler is asked for one request at a time: the device had no room of late.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// The scheduler had work, and gave out nothing in answer to the first question of a batch: it is
    /// asked again some ticks later, or when that was planned already.
    pub(crate) fn nothing_chosen(&mut self, kernel: &Kernel, now: Time) {
        if self.delayed_run.is_none() {
            self.delayed_run = Some(kernel.asks_again(now));
        }
    }

    /// The device gave a request back that had been issued. The queue is run again when a command of
    /// its own has completed or, as it may not have any, after some ticks.
    pub(crate) fn given_back(&mut self, kernel: &Kernel, now: Time) {
        self.restart = true;
        self.delayed_run = Some(kernel.asks_again(now));
    }

    /// Whether the device had room now, in eighths of how often it had not.
    pub(crate) fn note_busy(&mut self, busy: bool) {
        self.busy = (7 * self.busy + if busy { 16 } else { 0 }) / 8;
    }

    // ---- when it is run ------------------------------------------------------------------

    /// A process inserted a request outside of a plug: before Linux 6.10 a worker runs the queue.
    pub(crate) fn inserted_alone(&mut self, kernel: &Kernel) {
        if !kernel.plugs_each_bio() {
            self.delayed_run = None;
        }
    }

    /// The next completion runs it.
    pub(crate) fn mark_restart(&mut self) {
        self.restart = true;
    }

    /// A command completed: true if that runs the queue.
    pub(crate) fn take_restart(&mut self) -> bool {
        std::mem::take(&mut self.restart)
    }

    /// When a worker runs it, if that was planned.
    pub(crate) fn delayed_run(&self) -> Option<Time> {
        self.delayed_run
    }

    /// A worker runs it now, in place of one that was planned for later.
    pub(crate) fn worker_runs(&mut self) {
        self.delayed_run = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::KernelVersion;
    use crate::units::Nanos;

    const LOOP: Depth = Depth {
        attachment: Attachment::LookAhead,
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
            queue.list_issued();
            queue.is_busy()
        };
        assert_eq!([0; 3].map(busy_after), [true, false, false]);
        (0..100).for_each(|_| queue.list_blocked());
        assert_eq!(queue.busy, 9, "eighths are rounded down");
    }

    #[test]
    fn without_a_budget_one_request_more_is_chosen_than_the_device_takes() {
        let mut queue = HwQueue::default();
        let mut chosen = |depth: Depth| {
            let may_go_on =
                |&chosen: &usize| !depth.lacks_tag(chosen) && queue.take_budget(depth, chosen);
            (0..10).take_while(may_go_on).count()
        };
        assert_eq!((chosen(LOOP), chosen(SCSI)), (5, 4));
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
    fn a_run_that_found_nothing_is_repeated_at_the_edge_of_a_tick() {
        let mut queue = HwQueue::default();
        queue.nothing_chosen(&kernel(), at(1));
        queue.nothing_chosen(&kernel(), at(5));
        assert_eq!(queue.delayed_run(), Some(at(8)), "what is planned stays");
        queue.worker_goes_on(SCSI);
        assert_eq!(queue.delayed_run(), Some(at(8)), "only a loop device's");
        queue.worker_goes_on(LOOP);
        assert_eq!(queue.delayed_run(), None);
        queue.given_back(&kernel(), at(5));
        assert_eq!(queue.delayed_run(), Some(at(12)));
        queue.worker_runs();
        assert_eq!(queue.delayed_run(), None);
    }

    #[test]
    fn a_worker_runs_what_was_inserted_without_a_plug_up_to_6_9() {
        let planned_after = |minor| {
            let version = KernelVersion { major: 6, minor };
            let mut queue = HwQueue::default();
            queue.nothing_chosen(&kernel(), at(1));
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
