//! Which request of the chosen queue goes to the drive, and how many at a time.

use super::queue::{Queue, QueueId};
use super::{Cfq, RequestData, signed, span};
use crate::request::{PriorityClass, RequestId, Requests};
use crate::units::Time;

impl Cfq {
    /// Has the queue of requests run again soon, if there is anything (`cfq_schedule_dispatch`).
    pub(super) fn schedule_dispatch(&mut self) {
        if self.busy_queues > 0 {
            self.run_requested = true;
        }
    }

    /// May this queue put one more request into the drive?
    /// (`cfq_may_dispatch()`)
    pub(super) fn may_dispatch(&self, now: Time, id: QueueId) -> bool {
        let queue = self.queue(id);
        if queue.must_dispatch {
            return true;
        }
        // Asynchronous ones are drained before synchronous ones, and the other way round.
        if self.should_idle(id) && self.rq_in_flight[0] > 0 {
            return false;
        }
        if self.rq_in_flight[1] > 0 && !queue.sync {
            return false;
        }
        let idle_class = queue.class == PriorityClass::Idle;
        let mut max = if idle_class {
            1
        } else {
            (self.tunables.quantum / 2).max(1)
        };
        if queue.dispatched >= max {
            if idle_class {
                return false;
            }
            let only_sync = queue.sync && self.busy_sync_queues == 1;
            if self.busy_queues > 1 && self.slice_used_soon(now, id) && !only_sync {
                return false;
            }
            let unlimited = self.busy_queues == 1 || only_sync;
            max = if unlimited {
                u64::MAX
            } else {
                self.tunables.quantum
            };
        }
        if !queue.sync && self.tunables.low_latency {
            max = max.min(self.async_depth(now, queue));
        }
        queue.dispatched < max
    }

    /// After a synchronous request that took long, asynchronous ones start again with one at a time.
    pub(super) fn async_depth(&self, now: Time, queue: &Queue) -> u64 {
        let since = u64::try_from(signed(now) - self.last_delayed_sync).unwrap_or(0);
        let depth = since / self.tunables.slice[1].as_nanos();
        if depth == 0 && queue.dispatched == 0 {
            1
        } else {
            depth
        }
    }

    /// `cfq_slice_used_soon()`.
    #[expect(clippy::cast_possible_wrap, reason = "requests in the drive")]
    pub(super) fn slice_used_soon(&self, now: Time, id: QueueId) -> bool {
        let queue = self.queue(id);
        let idle = span(self.tunables.slice_idle) * queue.dispatched as i64;
        queue.slice_new || signed(now) + idle > queue.slice_end
    }

    /// The oldest request of the queue if it has expired; looked at once in a slice (`cfq_check_fifo()`).
    pub(super) fn expired_head(&mut self, now: Time, id: QueueId) -> Option<RequestId> {
        if std::mem::replace(&mut self.queue_mut(id).fifo_checked, true) {
            return None;
        }
        let head = self.queue(id).fifo.first()?;
        (now >= self.data_of(head).expires).then_some(head)
    }

    /// `cfq_dispatch_insert()`.
    pub(super) fn dispatch_request(&mut self, requests: &Requests, id: RequestId) {
        let RequestData { queue, context, .. } = self.data_of(id);
        let next = self.find_next(requests, id);
        self.queue_mut(queue).next = next;
        self.remove(requests, id);
        // The kernel compares with the position of the next request as it is now.
        if !self.queue(queue).is_empty() && self.queue(queue).cooperator_key.is_some() {
            self.place_among_cooperators(requests, queue);
        }
        self.queue_mut(queue).dispatched += 1;
        self.group_of_mut(queue).dispatched += 1;
        self.rq_in_flight[usize::from(self.queue(queue).sync)] += 1;
        self.active_context.get_or_insert(context);
    }

    /// `cfq_dispatch_requests()`.
    pub(super) fn after_dispatch(&mut self, now: Time, requests: &Requests, id: QueueId) {
        let most = 2 * self.tunables.slice_async_rq * (8 - u64::from(self.queue(id).level));
        let queue = self.queue_mut(id);
        queue.slice_dispatch += 1;
        queue.must_dispatch = false;
        let enough = !queue.sync && queue.slice_dispatch >= most;
        if self.busy_queues > 1 && (enough || self.queue(id).class == PriorityClass::Idle) {
            self.queue_mut(id).slice_end = signed(now) + 1;
            self.expire(now, requests, false);
        }
    }
}
