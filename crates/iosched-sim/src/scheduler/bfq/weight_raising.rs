//! Weight raising: queues of new or long idle processes (interactive), and of processes that do a
//! little at a time and then wait (soft real time), are served as if they had 30 times their weight, or
//! 3000 times.
//!
//! An interactive weight-raising lasts as long as a large application takes to start at the disk's rate. A soft
//! real-time weight-raising lasts 300 ms, but begins anew as long as its process keeps its pace.

use super::Bfq;
use super::moment::Moment;
use super::queue::QueueId;

/// Weight of an interactive queue.
pub(super) const INTERACTIVE: i64 = 30;

/// Weight of a soft real-time queue.
const SOFT_RT: i64 = INTERACTIVE * 100;

/// Sectors that an interactive weight-raising serves at most.
const MAX_SERVICE: i64 = 120_000;

/// Sectors per second: a process that does more is not soft real time.
const SOFT_RT_RATE: i64 = 7000;

/// Reference rates in sectors per microsecond times 2^16, and the time that a large application takes
/// to start at them, in milliseconds: disks that turn, and others.
pub(super) const REFERENCES: [(i64, u64); 2] = [(14_000, 7000), (33_000, 2500)];

/// What speaks for weight-raising when a queue becomes busy.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "answers to four questions")]
pub(super) struct Verdict {
    pub(super) deserved: bool,
    pub(super) interactive: bool,
    pub(super) in_burst: bool,
    pub(super) soft_rt: bool,
}

impl Bfq {
    /// How long an interactive weight-raising lasts at the present rate, in ticks (`bfq_wr_duration()`).
    pub(super) fn interactive_length(&self) -> i64 {
        let (rate, millis) = REFERENCES[usize::from(!self.rotational)];
        let (least, most) = self.clock.wr_duration;
        (rate * self.clock.ticks(millis) / self.rate.peak).clamp(least, most)
    }

    /// It has the length of a soft real-time weight-raising, or had it last.
    pub(super) fn is_soft_rt(&self, id: QueueId) -> bool {
        self.queue(id).wr.cur_max_time == self.clock.soft_rt
    }

    /// The queue's weight-raising when it becomes busy (`bfq_update_bfqq_wr_on_rq_arrival()`).
    pub(super) fn update_wr_on_rq_arrival(&mut self, at: Moment, id: QueueId, verdict: Verdict) {
        let length = self.interactive_length();
        let soft_rt_length = self.clock.soft_rt;
        let small_budget = 2 * self.min_budget();
        let queue = self.queue_mut(id);
        let wr = &mut queue.wr;
        let old_factor = wr.coeff;
        if old_factor == 1 {
            if !verdict.deserved {
                return;
            }
            if verdict.interactive {
                (wr.coeff, wr.cur_max_time, wr.service) = (INTERACTIVE, length, 0);
            } else {
                (wr.coeff, wr.cur_max_time) = (SOFT_RT, soft_rt_length);
                wr.start_at_switch_to_srt = super::moment::LONG_AGO;
            }
            queue.entity.budget = queue.entity.budget.min(small_budget);
        } else if verdict.interactive {
            (wr.coeff, wr.cur_max_time) = (INTERACTIVE, length);
        } else if verdict.in_burst {
            wr.coeff = 1;
        } else if verdict.soft_rt {
            if wr.cur_max_time != soft_rt_length {
                wr.start_at_switch_to_srt = wr.last_start_finish;
                (wr.coeff, wr.cur_max_time) = (SOFT_RT, soft_rt_length);
            }
            wr.last_start_finish = at.tick;
        }
        if queue.wr.coeff != old_factor {
            queue.entity.prio_changed = true;
        }
    }

    /// An asynchronous queue that is busy is weight-raised if that was long ago.
    pub(super) fn raise_async_weight(&mut self, at: Moment, id: QueueId) {
        let length = self.interactive_length();
        let gap = self.clock.between_async_wr;
        let queue = self.queue_mut(id);
        if queue.wr.last_start_finish + gap >= at.tick {
            return;
        }
        (queue.wr.coeff, queue.wr.cur_max_time) = (INTERACTIVE, length);
        queue.entity.prio_changed = true;
        self.wr_busy_queues += 1;
    }

    /// The time in which an interactive weight-raising could go on after the soft real-time one has passed.
    fn is_interactive_over(&self, at: Moment, id: QueueId) -> bool {
        self.queue(id).wr.start_at_switch_to_srt + self.interactive_length() < at.tick
    }

    /// `switch_back_to_interactive_wr()`.
    fn return_to_interactive(&mut self, id: QueueId) {
        let length = self.interactive_length();
        let wr = &mut self.queue_mut(id).wr;
        (wr.coeff, wr.cur_max_time) = (INTERACTIVE, length);
        wr.last_start_finish = wr.start_at_switch_to_srt;
    }

    /// The soft real-time weight-raising of a queue that only seeks goes on as interactive, or ends.
    pub(super) fn deny_soft_rt(&mut self, at: Moment, id: QueueId) {
        if self.is_interactive_over(at, id) {
            self.end_wr(at, id);
        } else {
            self.return_to_interactive(id);
            self.queue_mut(id).entity.prio_changed = true;
        }
    }

    /// Weight-raising ends; the weight follows (`bfq_bfqq_end_wr()`).
    pub(super) fn end_wr(&mut self, at: Moment, id: QueueId) {
        let was_soft_rt = self.is_soft_rt(id);
        let queue = self.queue_mut(id);
        if !was_soft_rt {
            queue.soft_rt_next_start = at.tick;
        }
        queue.wr.coeff = 1;
        queue.wr.cur_max_time = 0;
        queue.wr.last_start_finish = at.tick;
        queue.entity.prio_changed = true;
        if queue.busy {
            self.wr_busy_queues -= 1;
        }
    }

    /// After a request of the queue in service: is its weight-raising over? Its weight follows at once, so that
    /// it holds for the whole slice (`bfq_update_wr_data()`).
    pub(super) fn update_wr_data(&mut self, at: Moment, id: QueueId) {
        if self.queue(id).is_weight_raised() {
            self.end_wr_in_time(at, id);
            let queue = self.queue(id);
            if queue.is_weight_raised() && !self.is_soft_rt(id) && queue.wr.service > MAX_SERVICE {
                self.end_wr(at, id);
            }
        }
        let queue = self.queue(id);
        if (queue.entity.weight > queue.entity.orig_weight) != queue.is_weight_raised() {
            self.apply_priority(id, false);
        }
    }

    fn end_wr_in_time(&mut self, at: Moment, id: QueueId) {
        let queue = self.queue(id);
        if queue.in_large_burst {
            return self.end_wr(at, id);
        }
        if queue.wr.last_start_finish + queue.wr.cur_max_time >= at.tick {
            return;
        }
        if self.is_soft_rt(id) && !self.is_interactive_over(at, id) {
            self.return_to_interactive(id);
            self.queue_mut(id).entity.prio_changed = true;
        } else {
            self.end_wr(at, id);
        }
    }

    /// Weight-raising that a queue had before it was merged: does it still hold?
    pub(super) fn check_restored_wr(&mut self, at: Moment, id: QueueId) {
        let queue = self.queue(id);
        let (start, length) = (queue.wr.last_start_finish, queue.wr.cur_max_time);
        let in_burst = queue.in_large_burst;
        if !queue.is_weight_raised() || !(in_burst || start + length < at.tick) {
            return;
        }
        if self.is_soft_rt(id) && !in_burst && !self.is_interactive_over(at, id) {
            self.return_to_interactive(id);
        } else {
            self.queue_mut(id).wr.coeff = 1;
        }
    }

    /// From when on the next request of the queue is early enough for soft real time (`bfq_bfqq_softrt_next_start()`).
    pub(super) fn soft_rt_next_start(&self, at: Moment, id: QueueId) -> i64 {
        let queue = self.queue(id);
        let at_rate = self.clock.hz() * queue.service_from_backlogged / SOFT_RT_RATE;
        let after_idling = self.clock.whole_ticks(self.slice_idle) + 4;
        queue
            .soft_rt_next_start
            .max(queue.last_idle_bklogged + at_rate)
            .max(at.tick + after_idling)
    }

    /// A soft real-time queue comes into service: the time that it had to wait is not taken from its
    /// weight-raising (`__bfq_set_in_service_queue()`).
    pub(super) fn lengthen_soft_rt(&mut self, at: Moment, id: QueueId) {
        let is_soft_rt = self.is_soft_rt(id);
        let queue = self.queue_mut(id);
        let waited_since = queue.budget_timeout;
        if !queue.is_weight_raised()
            || !is_soft_rt
            || queue.wr.last_start_finish >= at.tick
            || waited_since >= at.tick
        {
            return;
        }
        if waited_since > queue.wr.last_start_finish {
            queue.wr.last_start_finish += at.tick - waited_since;
        } else {
            queue.wr.last_start_finish = at.tick;
        }
    }
}
