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
            && self.queues[number].hw.dispatch.is_empty()
            && self.issue(host, now, submitter, id);
        self.queues[number].hw.note_busy(!issued);
        issued
    }

    /// The device takes another command from this hardware queue: it has tags for each, or, with a
    /// budget, slots for all together.
    fn has_room(&self, number: usize) -> bool {
        self.depth.has_room(match self.depth.attachment {
            Attachment::LookAhead => self.queues[number].hw.in_flight,
            Attachment::Budget => self.in_flight,
        })
    }

    /// Requests that were chosen and have not completed, of those that share room in the device.
    #[inline]
    fn chosen(&self, number: usize) -> usize {
        match self.depth.attachment {
            Attachment::LookAhead => self.queues[number].hw.chosen(),
            Attachment::Budget => {
                let waiting = |queue: &HardwareQueue| queue.hw.dispatch.len();
                self.in_flight + self.queues.iter().map(waiting).sum::<usize>()
            }
        }
    }

    /// The device has a command more from this hardware queue.
    fn inc_in_flight(&mut self, number: usize) {
        self.queues[number].hw.in_flight += 1;
        self.in_flight += 1;
    }

    /// The device is done with a command from this hardware queue.
    fn dec_in_flight(&mut self, number: usize) {
        self.queues[number].hw.in_flight -= 1;
        self.in_flight -= 1;
    }

    /// Runs a hardware queue, in the context of `process`. Only what waits for room, now or when the
    /// run began, makes the next completion run the queue.
    pub(super) fn run(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        number: usize,
        process: ProcessId,
    ) {
        self.queues[number].hw.begin_run();
        if self.flushes.is_due() && number == 0 {
            self.issue_flush(host, now, number, process);
        }
        if !self.issue_dispatch_list(host, now, number, process) {
            return;
        }
        while self.choose(host, now, number, process)
            && self.issue_dispatch_list(host, now, number, process)
        {
            self.queues[number].hw.worker_goes_on(self.depth);
        }
    }

    #[inline(never)]
    fn issue_flush(&mut self, host: &mut Host<'_>, now: Time, number: usize, process: ProcessId) {
        self.queues[number].hw.mark_restart();
        if self.has_room(number) && host.drive.accepts() {
            self.flushes.issued();
            self.inc_in_flight(number);
            host.flush_drive(now, FLUSH, process);
        }
    }

    /// Gives the device what stands before it. False if something still does.
    #[inline(always)]
    fn issue_dispatch_list(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        number: usize,
        process: ProcessId,
    ) -> bool {
        let Some(&first) = self.queues[number].hw.dispatch.front() else {
            return true;
        };
        let mut next = Some(first);
        while let Some(id) = next
            && self.has_room(number)
            && self.issue(host, now, process, id)
        {
            let dispatch = &mut self.queues[number].hw.dispatch;
            dispatch.pop_front();
            next = dispatch.front().copied();
        }
        let queue = &mut self.queues[number].hw;
        if next.is_some() {
            queue.list_blocked();
        } else {
            queue.list_issued();
        }
        next.is_none()
    }

    /// Asks the scheduler for one request, or if the device was not busy of late, for as many as there
    /// are tags for; without a budget, one more than that. Each stands before the device in its own
    /// hardware queue; those of other queues are issued here. False if there was none.
    #[inline]
    fn choose(
        &mut self,
        host: &mut Host<'_>,
        now: Time,
        number: usize,
        process: ProcessId,
    ) -> bool {
        let most = if self.queues[number].hw.is_busy() {
            1
        } else {
            usize::MAX
        };
        let (mut taken, mut elsewhere) = (0, false);
        while taken < most && self.scheduler.has_work_for(number) {
            let chosen = self.chosen(number);
            if !self.queues[number].hw.take_budget(self.depth, chosen) {
                break;
            }
            let next = self.scheduler.dispatch_for(now, &host.requests, number);
            let Some(id) = next else {
                if taken == 0 {
                    self.queues[number].hw.nothing_chosen(&self.kernel, now);
                }
                break;
            };
            self.dispatched(host, now, process, id);
            taken += 1;
            let home = self.known[id].queue;
            elsewhere |= home != number;
            self.queues[home].hw.dispatch.push_back(id);
            if self.depth.lacks_tag(self.chosen(home)) {
                break;
            }
        }
        if elsewhere {
            for other in (0..self.queues.len()).filter(|&other| other != number) {
                self.issue_dispatch_list(host, now, other, process);
            }
        }
        taken > 0
    }

    fn dispatched(&mut self, host: &mut Host<'_>, now: Time, process: ProcessId, id: RequestId) {
        self.merger.dispatched(id);
        if !self.direct {
            host.tell_request(now, Action::Decided, id, process);
        }
    }

    /// Sends a request to the device; false if that gives it back.
    #[inline(always)]
    fn issue(&mut self, host: &mut Host<'_>, now: Time, process: ProcessId, id: RequestId) -> bool {
        host.tell_request(now, Action::Issued, id, process);
        if !host.drive.accepts() {
            host.tell_request(now, Action::GivenBack, id, process);
            let queue = &mut self.queues[self.known[id].queue];
            queue.hw.given_back(&self.kernel, now);
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
        self.inc_in_flight(number);
        host.start(now, id);
        true
    }

    // ---- completions ---------------------------------------------------------------------

    /// The device is done with a request, and so is the processor that dealt with its completion.
    #[inline]
    pub(super) fn end(&mut self, host: &mut Host<'_>, now: Time, id: RequestId) {
        let number = self.known[id].queue;
        self.dec_in_flight(number);
        self.drive_done(host, now, id);
        if self.flushes.is_due() {
            self.queues[0].hw.mark_restart();
        }
        self.run_again(host, now, number);
    }

    /// Runs the hardware queues that waited for a completion in this one: those that lacked a token of
    /// the scheduler's; itself; the first if a flush is due; and with a budget, which is the device's,
    /// all that lacked a slot.
    fn run_again(&mut self, host: &mut Host<'_>, now: Time, number: usize) {
        while let Some(lacked_token) = self.scheduler.take_kick() {
            self.queues[lacked_token].hw.mark_restart();
            if self.depth.attachment == Attachment::LookAhead && lacked_token != number {
                self.run_waiting(host, now, lacked_token);
            }
        }
        match self.depth.attachment {
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
        if self.queues[number].hw.take_restart() {
            self.run_in_worker(host, now, number);
        }
    }

    /// The run takes the place of one that was planned for later.
    pub(super) fn run_in_worker(&mut self, host: &mut Host<'_>, now: Time, number: usize) {
        self.queues[number].hw.worker_runs();
        self.run(host, now, number, ProcessId(0));
    }

    /// The device is done with a flush.
    pub(super) fn flush_completed(&mut self, host: &mut Host<'_>, now: Time) {
        self.flush_done(host, now);
        self.dec_in_flight(0);
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
