//! The end of a slice: what the queue is charged, which budget it gets next, and where it goes. Whether it ends is decided
//! elsewhere: when a request is wanted (`dispatch`), completes (`completion`), comes (`insert`) or does not come (`idling`).

use super::Bfq;
use super::moment::{MILLI, Moment, span};
use super::queue::QueueId;
use super::tunables::USUAL_SLICE_IDLE;
use crate::request::Requests;

/// Why a slice ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// No request came while the disk was kept idle.
    TooIdle,
    /// It has lasted too long.
    Timeout,
    /// The budget has not enough left for the next request.
    Exhausted,
    /// There are no requests, and none is waited for.
    NoMore,
    /// Another queue goes first.
    Preempted,
}

/// What a slice was like.
struct Pace {
    slow: bool,
    /// Whole milliseconds that count as its time.
    millis: i64,
}

impl Bfq {
    /// The slice of the queue in service ends; if its idle timer says so, it had ended when that was armed.
    /// `bfq_bfqq_expire()`.
    pub(super) fn expire(
        &mut self,
        at: Moment,
        requests: &Requests,
        reason: Reason,
        from_timer: bool,
    ) {
        let id = self.in_service_queue.expect("a slice that ends had begun");
        let end = if from_timer {
            self.last_idling_start
        } else {
            at.ns
        };
        self.charge_time(at, id, reason, end);
        let low_latency = self.tunables.low_latency;
        let queue = self.queue_mut(id);
        if low_latency && !queue.is_weight_raised() {
            queue.wr.last_start_finish = at.tick;
        }
        if low_latency && queue.is_empty() {
            if queue.dispatched == 0 {
                let next = self.soft_rt_next_start(at, id);
                self.queue_mut(id).soft_rt_next_start = next;
            } else {
                queue.softrt_update = true;
            }
        }
        self.rqs_injected = false;
        self.wait_dispatch = false;
        self.waited_rq = None;
        self.set_next_budget(requests, id, reason);
        self.leave_service(at, requests, id, reason);
        let queue = self.queue_mut(id);
        let gave_up = !matches!(reason, Reason::Timeout | Reason::Exhausted);
        if !queue.busy && gave_up {
            queue.non_blocking_wait_rq = true;
        } else {
            queue.entity.service = 0;
        }
        self.release_if_unused(id);
    }

    /// Slow queues, and those that ran out of time, are charged the time that they took and not what they
    /// were served (`bfq_bfqq_charge_time()`).
    fn charge_time(&mut self, at: Moment, id: QueueId, reason: Reason, end: i64) {
        let pace = self.pace(id, end);
        let queue = self.queue(id);
        let timed_out = reason == Reason::Timeout && queue.budget_left() >= queue.entity.budget / 3;
        if queue.is_weight_raised() || !(pace.slow || timed_out) {
            return;
        }
        let timeout = self.clock.millis(self.tunables.timeout).max(1);
        let for_time = self.max_budget * pace.millis.min(timeout) / timeout;
        let entity = &mut self.queue_mut(id).entity;
        let total = for_time.max(entity.service);
        entity.budget = entity.budget.max(total);
        let more = total - entity.service;
        self.serve(at, id, more);
    }

    /// Very short slices say nothing of a queue's rate, longer ones nothing reliable: there it is slow if
    /// it seeks. Asynchronous queues are never slow (`bfq_bfqq_is_slow()`).
    fn pace(&self, id: QueueId, end: i64) -> Pace {
        let queue = self.queue(id);
        if !queue.sync {
            return Pace {
                slow: false,
                millis: 0,
            };
        }
        let micros = (end - self.last_budget_start) / 1000;
        if micros < 1000 {
            let one_seek = span(USUAL_SLICE_IDLE) / MILLI;
            let millis = if self.rotational { one_seek } else { 2 };
            return Pace {
                slow: queue.is_seeky(),
                millis,
            };
        }
        let slow = if micros > 20_000 {
            queue.entity.service < self.max_budget / 2
        } else {
            queue.is_seeky()
        };
        Pace {
            slow,
            millis: micros / 1000,
        }
    }

    /// The queue leaves service: out of the schedule if it has nothing to do, or to wait for its next
    /// slice (`__bfq_bfqq_expire()`).
    pub(super) fn leave_service(
        &mut self,
        at: Moment,
        requests: &Requests,
        id: QueueId,
        reason: Reason,
    ) {
        let queue = self.queue_mut(id);
        if queue.coop && queue.is_seeky() {
            queue.split_coop = true;
        }
        let stays = reason == Reason::Preempted && self.needs_idling(id);
        let queue = self.queue_mut(id);
        if queue.is_empty() && !stays {
            if queue.dispatched == 0 {
                queue.budget_timeout = at.tick;
            }
            self.del_busy(at, id, true);
        } else {
            self.requeue(at, id, true);
            self.file_position(at, requests, id);
        }
        self.queue_mut(id).wait_request = false;
        self.idle_timer = None;
        self.in_service_queue = None;
        self.slice_is_over = false;
    }

    /// The queue has no requests, or nobody waits for them (`bfq_del_bfqq_busy()`).
    pub(super) fn del_busy(&mut self, at: Moment, id: QueueId, expiration: bool) {
        let queue = self.queue_mut(id);
        queue.busy = false;
        let (class, raised, dispatched) = (queue.class, queue.is_weight_raised(), queue.dispatched);
        self.busy[class] -= 1;
        if raised {
            self.wr_busy_queues -= 1;
        }
        if dispatched == 0 {
            self.uncount_weight(id);
        }
        self.deactivate(at, id, expiration);
    }
}
