//! From the scheduler to the device, and completions on the way back.

use super::super::flush::{Flushes, Flushing};
use super::super::{Outputs, trace_request};
use super::hw_queue::{Attachment, Next};
use super::{Known, MultiQueue, Queue};
use crate::request::{Action, RequestId};
use crate::units::Time;

impl MultiQueue {
    /// Gives a request to the device, past the queues, if there is room.
    pub(super) fn issue_directly(
        &mut self,
        out: &mut impl Outputs,
        now: Time,
        id: RequestId,
    ) -> bool {
        let number = self.known[id].queue;
        let issued = self.has_room(number)
            && self.queues[number].hw.dispatch.is_empty()
            && self.issue(out, now, id);
        self.queues[number].hw.note_busy(!issued);
        issued
    }

    /// The device takes another command from this hardware queue: it has tags for each, or, with a
    /// budget, slots for all together.
    fn has_room(&self, number: usize) -> bool {
        self.depth.has_room(match self.depth.attachment {
            Attachment::TagOnly => self.queues[number].hw.in_flight,
            Attachment::Budget => self.device.in_flight,
        })
    }

    /// Requests that were dispatched and have not completed, of those that share room in the device.
    #[inline]
    fn outstanding(&self, number: usize) -> usize {
        match self.depth.attachment {
            Attachment::TagOnly => self.queues[number].hw.outstanding(),
            Attachment::Budget => {
                let waiting = |queue: &Queue| queue.hw.dispatch.len();
                self.device.in_flight + self.queues.iter().map(waiting).sum::<usize>()
            }
        }
    }

    /// Runs a hardware queue. Only what waits for room, now or when the
    /// run began, makes the next completion run the queue.
    pub(super) fn run(&mut self, out: &mut impl Outputs, now: Time, number: usize) {
        let mut step = self.queues[number].hw.begin_run();
        if self.flushes.is_due() && number == 0 {
            self.issue_flush(out, now, number);
        }
        loop {
            step = match step {
                Next::Issue => self.issue_dispatch_list(out, now, number),
                Next::Dispatch => self.dispatch_from_scheduler(out, now, number),
                Next::End => return,
            }
        }
    }

    fn issue_flush(&mut self, out: &mut impl Outputs, now: Time, number: usize) {
        self.queues[number].hw.mark_restart();
        if self.has_room(number) && self.device.is_accepting() {
            self.flushes.issued();
            self.queues[number].hw.in_flight += 1;
            self.device.flush(out, now, self.current);
        }
    }

    /// Gives the device what stands before it.
    #[inline(always)]
    fn issue_dispatch_list(&mut self, out: &mut impl Outputs, now: Time, number: usize) -> Next {
        let mut any = false;
        while let Some(&id) = self.queues[number].hw.dispatch.front() {
            if !(self.has_room(number) && self.issue(out, now, id)) {
                return self.queues[number].hw.list_blocked();
            }
            self.queues[number].hw.dispatch.pop_front();
            any = true;
        }
        self.queues[number].hw.list_issued(self.depth, any)
    }

    /// Asks the scheduler for a batch of requests, each of which then stands before the device in its
    /// own hardware queue; those of other queues are issued here.
    #[inline]
    fn dispatch_from_scheduler(
        &mut self,
        out: &mut impl Outputs,
        now: Time,
        number: usize,
    ) -> Next {
        let mut elsewhere = false;
        let mut step = Next::Dispatch;
        while step == Next::Dispatch {
            if !self.get_budget(number) {
                step = self.queues[number].hw.batch_ends();
                break;
            }
            let next = self.scheduler.dispatch(now, &self.requests, number);
            let Some(id) = next else {
                step = self.queues[number].hw.dispatched_nothing(&self.kernel, now);
                break;
            };
            self.dispatched(out, now, id);
            let home = self.known[id].queue;
            elsewhere |= home != number;
            self.queues[home].hw.dispatch.push_back(id);
            let lacks_tag = self.depth.lacks_tag(self.outstanding(home));
            step = self.queues[number].hw.dispatched_one(lacks_tag);
        }
        if elsewhere {
            for other in (0..self.queues.len()).filter(|&other| other != number) {
                self.issue_dispatch_list(out, now, other);
            }
        }
        step
    }

    /// Takes a budget if the scheduler has work for this hardware queue; false if it has no work, or no budget is free.
    fn get_budget(&mut self, number: usize) -> bool {
        if !self.scheduler.has_work(number) {
            return false;
        }
        let outstanding = self.outstanding(number);
        self.queues[number].hw.take_budget(self.depth, outstanding)
    }

    fn dispatched(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) {
        self.merger.dispatched(self.scheduler.as_mut(), id);
        if !self.direct {
            trace_request(
                out,
                now,
                Action::Dispatched,
                &self.requests[id],
                self.current,
            );
        }
    }

    /// Sends a request to the device; false if that gives it back.
    #[inline(always)]
    fn issue(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) -> bool {
        let request = &self.requests[id];
        let known = &mut self.known[id];
        let queue = &mut self.queues[known.queue].hw;
        trace_request(out, now, Action::Issued, request, self.current);
        if !self.device.is_accepting() {
            trace_request(out, now, Action::Requeued, request, self.current);
            queue.requeued(&self.kernel, now);
            return false;
        }
        out.took_up(request);
        if request.fua {
            self.flushes.write_begins();
        } else {
            self.scheduler.activate(now, &self.requests, id);
        }
        if let Some(throttle) = &mut self.throttle {
            throttle.issued(now, id, request);
        }
        known.issued = now;
        queue.in_flight += 1;
        self.device.issue(out, now, id, request);
        true
    }

    // ---- completions ---------------------------------------------------------------------

    /// The device is done with a request.
    #[inline]
    pub(super) fn request_ended(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) {
        let number = self.known[id].queue;
        self.device.in_flight -= 1;
        self.queues[number].hw.in_flight -= 1;
        let request = &self.requests[id];
        // As blktrace shows it: the device is done with it, whoever else has to wait for a flush.
        trace_request(out, now, Action::Completed, request, self.current);
        let is_followed = request.fua;
        self.device_done(out, now, id, is_followed);
        if self.flushes.is_due() {
            self.queues[0].hw.mark_restart();
        }
        self.run_again(out, now, number);
    }

    /// The device is done with a flush.
    pub(super) fn flush_ended(&mut self, out: &mut impl Outputs, now: Time) {
        self.device.in_flight -= 1;
        self.queues[0].hw.in_flight -= 1;
        self.flush_done(out, now);
        self.call_worker(out, now, 0);
    }

    /// Runs the hardware queues that waited for a completion in this one: those that lacked a token of
    /// the scheduler's; itself; the first if a flush is due; and with a budget, which is the device's,
    /// all that lacked a slot.
    fn run_again(&mut self, out: &mut impl Outputs, now: Time, number: usize) {
        while let Some(lacked_token) = self.scheduler.take_queue_run_request() {
            self.queues[lacked_token].hw.mark_restart();
            if self.depth.attachment == Attachment::TagOnly && lacked_token != number {
                self.run_waiting(out, now, lacked_token);
            }
        }
        match self.depth.attachment {
            Attachment::TagOnly => {
                self.run_waiting(out, now, number);
                if self.flushes.is_due() && number != 0 {
                    self.run_waiting(out, now, 0);
                }
            }
            Attachment::Budget => {
                for waiting in 0..self.queues.len() {
                    self.run_waiting(out, now, waiting);
                }
            }
        }
    }

    /// Runs the hardware queues that the scheduler wants to be run, not after a completion.
    pub(super) fn run_requested_queues(&mut self, out: &mut impl Outputs, now: Time) {
        while let Some(hw_queue) = self.scheduler.take_queue_run_request() {
            self.call_worker(out, now, hw_queue);
        }
    }

    /// A worker is to run the queue. Until it does, others may complete, and a process that one of them woke may be
    /// back.
    fn call_worker(&mut self, out: &mut impl Outputs, now: Time, number: usize) {
        let queue_run = &self.delays.queue_run;
        if queue_run.is_zero() {
            return self.run_in_worker(out, now, number);
        }
        let run = now + queue_run.draw(&mut self.chance);
        self.queues[number].hw.run_by(run);
    }

    fn run_waiting(&mut self, out: &mut impl Outputs, now: Time, number: usize) {
        if self.queues[number].hw.take_restart() {
            self.call_worker(out, now, number);
        }
    }

    /// The run takes the place of one that was planned for later.
    pub(super) fn run_in_worker(&mut self, out: &mut impl Outputs, now: Time, number: usize) {
        self.queues[number].hw.worker_runs();
        self.run(out, now, number);
    }

    // ---- a tag is free again -------------------------------------------------------------

    #[inline(always)]
    pub(super) fn free_tag(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) {
        let Known {
            queue,
            tag,
            throttled,
            ..
        } = self.known[id];
        if self.queues[queue].tags.free(tag) {
            self.wake_waiters(out, now, queue);
        }
        // After those who have waited for a tag: they would not get one beside an unending copy.
        if throttled {
            self.throttled_ended(out, now);
        }
    }

    /// A tag is free, and processes wait for one.
    fn wake_waiters(&mut self, out: &mut impl Outputs, now: Time, queue: usize) {
        let waiters = &mut self.waiters;
        self.queues[queue].tags.wake(|process| {
            let runs = waiters.wake(now, process);
            out.wake(runs, process);
        });
    }

    /// A throttled request is no more: others may be let in.
    fn throttled_ended(&mut self, out: &mut impl Outputs, now: Time) {
        if let Some(throttle) = &mut self.throttle {
            throttle.ended(|process| out.wake(now + self.delays.wakeup, process));
        }
    }
}

impl Flushing for MultiQueue {
    fn flushes(&mut self) -> &mut Flushes {
        &mut self.flushes
    }

    #[inline(always)]
    fn request_done(&mut self, out: &mut impl Outputs, now: Time, id: RequestId) {
        // Who sleeps in the kernel is nearer to the tag than who will come back from user space.
        self.free_tag(out, now, id);
        let Known {
            issued, scheduled, ..
        } = self.known[id];
        if let Some(throttle) = &mut self.throttle
            && !self.requests[id].is_flush()
        {
            throttle.completed(now, issued, id, &self.requests[id]);
        }
        self.carried
            .end(id, |token| out.answered(now, token, issued));
        if scheduled {
            self.scheduler.completed(now, &self.requests, id);
        }
        self.requests.remove(id);
    }
}
