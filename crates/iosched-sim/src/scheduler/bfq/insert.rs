//! A request comes: what it tells of its process, and what it changes for its queue.

use super::Bfq;
use super::expire::Reason;
use super::moment::{MILLI, Moment};
use super::queue::{ProcessIndex, QueueId};
use super::weight_raising::Verdict;
use crate::request::{RequestId, Requests};
use crate::units::Sectors;

/// Think times are believed from this average number of samples on.
const THINK_SAMPLES: i64 = 80;

/// A queue that was idle for more than a fifth of this time is not I/O-bound.
const IO_WINDOW: i64 = 200 * MILLI;

/// A request that is shorter may be followed by its neighbours.
const SMALL: Sectors = Sectors::new(32);

impl Bfq {
    /// A bound request, which did not become part of another one, enters its queue.
    /// `__bfq_insert_request()`, `bfq_add_request()`.
    pub(super) fn add(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        self.move_to_cooperator(at, requests, id);
        let queue = self.data[id].queue();
        let process = self.data[id].process();
        let request = &requests[id];
        let since_end = self.since_last_end(at, queue);
        self.note_think_time(queue, since_end);
        self.note_short_think(at, queue);
        self.note_seek(at, requests, id);
        let alone = self.processes[process].requests <= 1;
        let old_factor = self.queue(queue).wr.coeff;
        let entry = self.queue_mut(queue);
        let was_empty = entry.is_empty();
        entry.queued[usize::from(request.sync)] += 1;
        self.queued += 1;
        if self.queue(queue).sync {
            if alone {
                self.check_waker(at, queue);
                self.begin_measurement(at, queue);
            }
            self.note_io_share(at, queue, was_empty, since_end);
        }
        let better = self.sort_in(at, requests, id);
        let interactive = if self.queue(queue).busy {
            self.add_to_busy(at, requests, id, old_factor, better);
            false
        } else {
            self.becomes_busy(at, requests, id)
        };
        let low_latency = self.tunables.low_latency;
        let entry = self.queue_mut(queue);
        if low_latency && (old_factor == 1 || !entry.is_weight_raised() || interactive) {
            entry.wr.last_start_finish = at.tick;
        }
        self.data[id].expires = self.expiry(at, request.sync);
        let Bfq { queues, links, .. } = self;
        let entry = &mut queues[queue.index()];
        entry.fifo.push_back(links, id);
        entry.last_request_pos = request.end();
        if self.in_service_queue == Some(queue) && self.queue(queue).wait_request {
            self.end_wait(at, requests, id);
        }
    }

    fn move_to_cooperator(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let (process, queue) = (self.data[id].process(), self.data[id].queue());
        let position = requests[id].start;
        let Some(target) = self.cooperator(at, process, queue, position) else {
            return;
        };
        self.queue_mut(target).allocated += 1;
        self.data[id].bound = Some((process, target));
        if self.processes[process].sync_queue == Some(queue) {
            self.move_along(at, process, queue, target);
        }
        let old = self.queue_mut(queue);
        old.just_created = false;
        old.allocated -= 1;
        self.release_if_unused(queue);
    }

    /// Nanoseconds since the queue's last completion.
    ///
    /// A new queue counts as if its last request had completed a nanosecond after its creation. Its first
    /// request was late enough for that to lie behind it as long as time was read anew each time; since
    /// Linux 6.10 it is read once for a bio, so that this is -1 ns, and for the kernel all the time
    /// that there is.
    fn since_last_end(&self, at: Moment, id: QueueId) -> u64 {
        let queue = self.queue(id);
        let is_first = queue.just_created && queue.think.samples == 0;
        if is_first && self.clock.is_read_once_for_a_bio() {
            return u64::MAX;
        }
        u64::try_from(at.ns - queue.think.last_end).unwrap_or(0)
    }

    /// Think time counts where the queue has nothing, here or in the disk (`bfq_update_io_thinktime()`).
    fn note_think_time(&mut self, id: QueueId, since_end: u64) {
        let longest = 2 * self.slice_idle;
        let queue = self.queue_mut(id);
        if queue.dispatched > 0 || queue.busy {
            return;
        }
        let think = &mut queue.think;
        let elapsed = i64::try_from(since_end).map_or(longest, |since_end| since_end.min(longest));
        think.samples = (7 * think.samples + 256) / 8;
        think.total = (7 * think.total + 256 * elapsed) / 8;
        think.mean = (think.total + 128) / think.samples;
    }

    /// Is the process quick enough for its next request to be waited for?
    /// (`bfq_update_has_short_ttime()`)
    fn note_short_think(&mut self, at: Moment, id: QueueId) {
        let (after_split, settles) = (self.clock.idle_long, self.clock.inject_settles);
        let slice_idle = self.slice_idle;
        let queue = self.queue_mut(id);
        let unknown = queue.split_time + after_split >= at.tick;
        if !queue.sync || queue.is_idle_class() || slice_idle == 0 || unknown {
            return;
        }
        let slow = queue.think.samples > THINK_SAMPLES && queue.think.mean > slice_idle / 2;
        let changed = queue.has_short_ttime == slow;
        queue.has_short_ttime = !slow;
        let settled = queue.injection.decreased + settles <= at.tick;
        if changed && queue.injection.baseline.is_none() && (settled || slow) {
            self.reset_injection(at, id);
        }
    }

    /// `bfq_update_io_seektime()`.
    fn note_seek(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let queue = self.data[id].queue();
        let from = self.queue(queue).last_request_pos;
        let seeks = self.seeks_from(from, &requests[id]);
        let entry = self.queue_mut(queue);
        entry.seek_history = entry.seek_history << 1 | u32::from(seeks);
        let only_seeks = entry.is_totally_seeky() && entry.is_weight_raised();
        if only_seeks && self.is_soft_rt(queue) {
            self.deny_soft_rt(at, queue);
        }
    }

    /// How much of the time the queue has had nothing to do (`bfq_update_io_intensity()`).
    fn note_io_share(&mut self, at: Moment, id: QueueId, was_empty: bool, since_end: u64) {
        let queue = self.queue_mut(id);
        let total = at.ns - queue.io_start_time;
        if was_empty && queue.dispatched == 0 {
            queue.tot_idle_time = queue.tot_idle_time.wrapping_add(since_end);
        }
        if queue.just_created {
            return;
        }
        queue.io_bound = queue.tot_idle_time.wrapping_mul(5) <= u64::try_from(total).unwrap_or(0);
        if total > IO_WINDOW {
            queue.io_start_time = at.ns - total / 2;
            queue.tot_idle_time /= 2;
        }
    }

    fn add_to_busy(
        &mut self,
        at: Moment,
        requests: &Requests,
        id: RequestId,
        old_factor: i64,
        better: bool,
    ) {
        let queue = self.data[id].queue();
        if self.tunables.low_latency && old_factor == 1 && !requests[id].sync {
            self.raise_async_weight(at, queue);
        }
        if better {
            self.adapt_budget(at, requests, queue);
        }
    }

    /// The queue has something to do again. True if it looks interactive (`bfq_bfqq_handle_idle_busy_switch()`).
    fn becomes_busy(&mut self, at: Moment, requests: &Requests, request: RequestId) -> bool {
        let (process, id) = (self.data[request].process(), self.data[request].queue());
        let verdict = self.judge(at, process, id);
        let wants_to_preempt = self.renew_budget(at, requests, id);
        let over = self.clock.burst_over;
        let queue = self.queue(id);
        let idle_long = self.is_idle_long(at, id);
        if !queue.just_created && idle_long && queue.budget_timeout + over < at.tick {
            self.leave_burst(id);
        }
        let after_split = self.clock.idle_long;
        let queue = self.queue_mut(id);
        queue.just_created = false;
        if self.tunables.low_latency && self.queue(id).split_time + after_split < at.tick {
            self.update_wr_on_rq_arrival(at, id, verdict);
        }
        let queue = self.queue_mut(id);
        queue.last_idle_bklogged = at.tick;
        queue.service_from_backlogged = 0;
        queue.softrt_update = false;
        self.activate(at, id);
        self.count_as_busy(id);
        self.preempt(at, requests, id, wants_to_preempt);
        verdict.interactive
    }

    /// `bfq_add_bfqq_busy()`.
    fn count_as_busy(&mut self, id: QueueId) {
        let queue = self.queue_mut(id);
        queue.busy = true;
        let (class, raised, dispatched) = (queue.class, queue.is_weight_raised(), queue.dispatched);
        self.busy[class] += 1;
        if dispatched == 0 && !raised {
            self.count_weight(id);
        }
        self.wr_busy_queues += u32::from(raised);
        self.come_first_among_woken(id);
    }

    /// It had nothing to do for two seconds (`bfq_bfqq_idle_for_long_time()`).
    fn is_idle_long(&self, at: Moment, id: QueueId) -> bool {
        let queue = self.queue(id);
        queue.dispatched == 0 && queue.budget_timeout + self.clock.idle_long < at.tick
    }

    /// What speaks for weight-raising the queue.
    fn judge(&self, at: Moment, process: ProcessIndex, id: QueueId) -> Verdict {
        let queue = self.queue(id);
        let in_burst = queue.in_large_burst;
        let usual = queue.entity.new_weight == super::queue::USUAL_WEIGHT;
        let soft_rt = !queue.is_totally_seeky()
            && !in_burst
            && queue.soft_rt_next_start < at.tick
            && queue.dispatched == 0
            && usual;
        let interactive = !in_burst && self.is_idle_long(at, id) && usual;
        let of_one = queue.owner.is_some() || self.processes[process].stably_merged;
        let deserved = self.tunables.low_latency
            && (queue.is_weight_raised() || queue.sync && of_one && (interactive || soft_rt));
        Verdict {
            deserved,
            interactive,
            in_burst,
            soft_rt,
        }
    }

    /// The budget with which the queue begins, or what is left of its last one if it comes in time. True
    /// then: it may go first (`bfq_bfqq_update_budg_for_activation()`).
    fn renew_budget(&mut self, at: Moment, requests: &Requests, id: QueueId) -> bool {
        let in_time = at.ns <= self.queue(id).think.last_end + 3 * self.slice_idle;
        let next = self.queue(id).next_rq.expect("a request has come");
        let charge = self.charge(requests, id, next);
        let queue = self.queue_mut(id);
        let left = queue.budget_left();
        let goes_on = queue.non_blocking_wait_rq && in_time && left > 0;
        queue.entity.budget = if goes_on {
            left.min(queue.max_budget)
        } else {
            queue.max_budget.max(charge)
        };
        queue.entity.service = 0;
        queue.non_blocking_wait_rq = goes_on;
        goes_on
    }

    /// The queue in service gives way, if this one goes first or it would not be waited for anyway.
    /// `bfq_bfqq_higher_class_or_weight()`.
    fn preempt(&mut self, at: Moment, requests: &Requests, id: QueueId, wants: bool) {
        let Some(served) = self.in_service_queue else {
            return;
        };
        let (new, old) = (self.queue(id), self.queue(served));
        let goes_on = wants && new.wr.coeff >= old.wr.coeff;
        let higher = new.class < old.class || new.entity.weight > old.entity.weight;
        let gives_way = goes_on || higher || !self.better_to_idle(served);
        if gives_way && self.next_in_service != Some(served) {
            self.expire(at, requests, Reason::Preempted, false);
        }
    }

    /// A request has come for which the disk was kept idle. A small one may be followed by its neighbours:
    /// it is waited on, until the disk is asked for a request (`bfq_rq_enqueued()`).
    fn end_wait(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let queue = self.data[id].queue();
        let request = &requests[id];
        let entry = self.queue(queue);
        let small = entry.queued[usize::from(request.sync)] == 1 && request.length < SMALL;
        let out_of_time = entry.is_out_of_time(at);
        if small && !out_of_time && self.idling_boosts(queue) {
            return;
        }
        self.stop_waiting(queue);
        if out_of_time {
            self.expire(at, requests, Reason::Timeout, false);
        }
    }
}
