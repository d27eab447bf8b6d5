//! From the hardware queues to the device, and what comes back.

use super::super::Attachment;
use super::super::flush::{FLUSH, Flushes, Flushing};
use super::super::host::Host;
use super::MultiQueue;
use super::hardware_queue::HardwareQueue;
use crate::request::{ProcessId, RequestId};
use crate::trace::kernel::Action;
use crate::units::Time;

impl MultiQueue {
    /// Gives a request to the device, past the queues, if there is room.
    pub(super) fn issue_directly(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        submitter: ProcessId,
        id: RequestId,
    ) -> bool {
        let number = self.known[id].queue;
        let issued = self.has_room(number)
            && self.queues[number].dispatch.is_empty()
            && self.issue(host, now, submitter, id);
        self.queues[number].note_busy(!issued);
        issued
    }

    /// The device takes another command from this hardware queue: it has tags for each, or, with a
    /// budget, slots for all together.
    fn has_room(&self, number: usize) -> bool {
        match self.attachment {
            Attachment::LookAhead => self.queues[number].in_flight < self.queue_depth,
            Attachment::Budget => self.in_flight < self.queue_depth,
        }
    }

    /// The device will have no room when it has taken what was given out.
    #[inline]
    fn is_filled(&self, number: usize) -> bool {
        let before_it = |queue: &HardwareQueue| queue.dispatch.len();
        let out = match self.attachment {
            Attachment::LookAhead => {
                let queue = &self.queues[number];
                queue.in_flight + before_it(queue)
            }
            Attachment::Budget => self.in_flight + self.queues.iter().map(before_it).sum::<usize>(),
        };
        out >= self.queue_depth
    }

    /// The device has a command more from this hardware queue.
    fn goes_out(&mut self, number: usize) {
        self.queues[number].in_flight += 1;
        self.in_flight += 1;
    }

    /// The device is done with a command from this hardware queue.
    fn comes_back(&mut self, number: usize) {
        self.queues[number].in_flight -= 1;
        self.in_flight -= 1;
    }

    /// Gives the device what it takes from a hardware queue. In the context of `process`. Only what
    /// waits for room, now or when the run began, makes the next completion run the queue.
    pub(super) fn run(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        number: usize,
        process: ProcessId,
    ) {
        let flush_due = self.flushes.is_due() && number == 0;
        self.queues[number].restart |= !self.queues[number].dispatch.is_empty() || flush_due;
        if flush_due {
            self.issue_flush(host, now, number, process);
        }
        let mut given = false;
        while self.hand_over(host, now, number, process)
            && self.ask(host, now, number, process, given)
        {
            given = true;
        }
    }

    #[inline(never)]
    fn issue_flush(&mut self, host: &mut Host<'_>, now: Time, number: usize, process: ProcessId) {
        if self.has_room(number) && host.drive.accepts() {
            self.flushes.issued();
            self.goes_out(number);
            host.flush_drive(now, FLUSH, process);
        }
    }

    /// Gives the device what stands before it. False if something still does.
    #[inline(always)]
    fn hand_over(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        number: usize,
        process: ProcessId,
    ) -> bool {
        let Some(&first) = self.queues[number].dispatch.front() else {
            return true;
        };
        let mut next = Some(first);
        while let Some(id) = next
            && self.has_room(number)
            && self.issue(host, now, process, id)
        {
            let dispatch = &mut self.queues[number].dispatch;
            dispatch.pop_front();
            next = dispatch.front().copied();
        }
        let queue = &mut self.queues[number];
        queue.note_busy(next.is_some());
        queue.restart |= next.is_some();
        next.is_none()
    }

    /// Takes from the scheduler: one request, or if the device was not busy of late, as many as there
    /// are tags for. Without a budget, one more than that. Each stands before the device in its own
    /// hardware queue; those of other queues are handed over here. False if there was none.
    ///
    /// If some were `given` before in this run, a worker goes on with it where the driver has one, as a
    /// loop device does: woken for them, it takes the processor from the process that ran the queue
    /// (`need_resched` in `blk_mq_do_dispatch_sched`). It goes on now, and not when a run was planned.
    #[inline]
    fn ask(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        number: usize,
        process: ProcessId,
        given: bool,
    ) -> bool {
        let budget = self.attachment == Attachment::Budget;
        if given && !budget {
            self.queues[number].rerun = None;
        }
        let most = if self.queues[number].is_busy() {
            1
        } else {
            usize::MAX
        };
        let (mut taken, mut elsewhere) = (0, false);
        while taken < most && self.scheduler.has_work_for(number) {
            if budget && self.is_filled(number) {
                self.queues[number].restart = true;
                break;
            }
            let next = self.scheduler.dispatch_for(now, &host.requests, number);
            let Some(id) = next else {
                if taken == 0 {
                    self.plan_rerun(now, number);
                }
                break;
            };
            self.decided(host, now, process, id);
            taken += 1;
            let home = self.known[id].queue;
            elsewhere |= home != number;
            let filled = self.is_filled(home);
            self.queues[home].dispatch.push_back(id);
            if filled {
                break; // there was no tag for it
            }
        }
        if elsewhere {
            for other in (0..self.queues.len()).filter(|&other| other != number) {
                self.hand_over(host, now, other, process);
            }
        }
        taken > 0
    }

    /// The queue is run again some ticks after an ask that gave nothing. What is planned already stays.
    fn plan_rerun(&mut self, now: Time, number: usize) {
        let again = self.kernel.asks_again(now);
        self.queues[number].rerun.get_or_insert(again);
    }

    fn decided(&mut self, host: &mut Host<'_>, now: Time, process: ProcessId, id: RequestId) {
        if !self.in_lists {
            self.merger.dispatched(id);
        }
        if !self.direct {
            host.tell_request(now, Action::Decided, id, process);
        }
    }

    /// Sends a request to the device; false if that gives it back. Then the queue is run again when a
    /// command of its own has completed or, as it may not have any, after some ticks.
    #[inline(always)]
    fn issue(&mut self, host: &mut Host<'_>, now: Time, process: ProcessId, id: RequestId) -> bool {
        host.tell_request(now, Action::Issued, id, process);
        if !host.drive.accepts() {
            host.tell_request(now, Action::GivenBack, id, process);
            let queue = &mut self.queues[self.known[id].queue];
            queue.restart = true;
            queue.rerun = Some(self.kernel.asks_again(now));
            return false;
        }
        let request = &host.requests[id];
        host.drive.note_issue(request);
        if request.fua {
            self.flushes.write_begins();
        } else {
            self.scheduler.activate(now, &host.requests, id);
        }
        if let Some(throttle) = &mut self.throttle {
            throttle.issued(now, id, request);
        }
        let known = &mut self.known[id];
        known.issued = now;
        let number = known.queue;
        self.goes_out(number);
        host.start(now, id);
        true
    }

    // ---- completions ---------------------------------------------------------------------

    /// The device is done with a request, and so is the processor that dealt with its completion.
    #[inline]
    pub(super) fn end(&mut self, host: &mut Host<'_>, now: Time, id: RequestId) {
        let number = self.known[id].queue;
        self.comes_back(number);
        self.drive_done(host, now, id);
        self.queues[0].restart |= self.flushes.is_due();
        self.run_again(host, now, number);
    }

    /// Runs the hardware queues that waited for a completion in this one: those that lacked a token of
    /// the scheduler's; itself; the first if a flush is due; and with a budget, which is the device's,
    /// all that lacked a slot.
    fn run_again(&mut self, host: &mut Host<'_>, now: Time, number: usize) {
        while let Some(lacked_token) = self.scheduler.take_kick() {
            self.queues[lacked_token].restart = true;
            if self.attachment == Attachment::LookAhead && lacked_token != number {
                self.run_waiting(host, now, lacked_token);
            }
        }
        match self.attachment {
            Attachment::LookAhead => {
                self.run_waiting(host, now, number);
                if self.flushes.is_due() && number != 0 {
                    self.run_waiting(host, now, 0);
                }
            }
            Attachment::Budget => {
                for waiting in 0..self.queues.len() {
                    self.run_waiting(host, now, waiting);
                }
            }
        }
    }

    fn run_waiting(&mut self, host: &mut Host<'_>, now: Time, number: usize) {
        if std::mem::take(&mut self.queues[number].restart) {
            self.run_in_worker(host, now, number);
        }
    }

    /// The run takes the place of one that was planned for later.
    pub(super) fn run_in_worker(&mut self, host: &mut Host<'_>, now: Time, number: usize) {
        self.queues[number].rerun = None;
        self.run(host, now, number, ProcessId(0));
    }

    /// The device is done with a flush.
    pub(super) fn flush_completed(&mut self, host: &mut Host<'_>, now: Time) {
        self.flush_done(host, now);
        self.comes_back(0);
        self.run_in_worker(host, now, 0);
    }
}

impl Flushing for MultiQueue {
    fn flushes(&mut self) -> &mut Flushes {
        &mut self.flushes
    }

    #[inline(always)]
    fn request_done(&mut self, host: &mut Host<'_>, now: Time, id: RequestId) {
        // Who sleeps in the kernel is nearer to the tag than who will come back from user space.
        let woken = host.requests[id].process;
        self.free_tag(host, now, id, Some(woken));
        let known = self.known[id];
        if let Some(throttle) = &mut self.throttle
            && !host.requests[id].is_flush()
        {
            throttle.completed(now, known.issued, id, &host.requests[id]);
        }
        host.finish(now, id, known.issued);
        if known.scheduled {
            self.scheduler.completed(now, &host.requests, id);
        }
        host.requests.remove(id);
    }
}
