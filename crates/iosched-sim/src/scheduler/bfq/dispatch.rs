//! Which request goes to the disk: the queue in service, unless its slice is over, and its next request.

use super::Bfq;
use super::expire::Reason;
use super::moment::Moment;
use super::queue::QueueId;
use crate::request::{RequestId, Requests};

impl Bfq {
    /// The queue whose next request goes to the disk now; none if there is nothing, or it is better to
    /// wait (`bfq_select_queue()`).
    pub(super) fn select(&mut self, at: Moment, requests: &Requests) -> Option<QueueId> {
        if self.busy_queues() == 0 || self.tunables.strict_guarantees && self.rq_in_driver > 0 {
            return None;
        }
        if self.in_service_queue.is_some() {
            let reason = self.reason_to_expire(at, requests);
            let Some(reason) = reason else {
                return self.serve_or_wait(requests);
            };
            self.expire(at, requests, reason, false);
        }
        loop {
            self.begin_slice(at)?;
            if self.reason_to_expire_now(requests).is_none() {
                return self.serve_or_wait(requests);
            }
            let reason = self.reason_to_expire_now(requests);
            self.expire(at, requests, reason?, false);
        }
    }

    /// Why the slice of the queue in service is over before it gives another request.
    pub(super) fn reason_to_expire(&self, at: Moment, requests: &Requests) -> Option<Reason> {
        let id = self.in_service_queue?;
        if self.may_time_out(at, id) && !self.must_idle(id) {
            return Some(Reason::Timeout);
        }
        self.reason_to_expire_now(requests)
    }

    /// The same without regard to its time.
    fn reason_to_expire_now(&self, requests: &Requests) -> Option<Reason> {
        let id = self.in_service_queue?;
        let queue = self.queue(id);
        if let Some(next) = queue.next_rq {
            let fits = self.charge(requests, id, next) <= queue.budget_left();
            return (!fits).then_some(Reason::Exhausted);
        }
        let is_kept = queue.wait_request || queue.dispatched > 0 && self.better_to_idle(id);
        (!is_kept).then_some(Reason::NoMore)
    }

    /// The queue in service keeps its slice: its request, or that of another one while it has none.
    fn serve_or_wait(&mut self, requests: &Requests) -> Option<QueueId> {
        let id = self.in_service_queue?;
        if self.queue(id).next_rq.is_none() {
            return self.choose_injected(requests, id);
        }
        if self.queue(id).wait_request {
            self.stop_waiting(id);
        }
        Some(id)
    }

    /// The next queue comes into service (`bfq_set_in_service_queue()`).
    fn begin_slice(&mut self, at: Moment) -> Option<QueueId> {
        let id = self.put_next_in_service(at)?;
        self.open_slice(at, id);
        Some(id)
    }

    /// `__bfq_set_in_service_queue()`.
    fn open_slice(&mut self, at: Moment, id: QueueId) {
        self.queue_mut(id).fifo_checked = false;
        self.count_slice();
        self.lengthen_soft_rt(at, id);
        let times = if self.is_soft_rt(id) {
            1
        } else {
            let entity = &self.queue(id).entity;
            entity.weight / entity.orig_weight
        };
        self.last_budget_start = at.ns;
        self.queue_mut(id).budget_timeout = at.tick + self.tunables.timeout * times;
        self.in_serv_last_pos = crate::units::Sector::ZERO;
    }

    /// Takes a request out of its queue, for the disk (`bfq_dispatch_rq_from_bfqq()`).
    pub(super) fn take(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let queue = self.data[id].queue();
        let charge = self.charge(requests, queue, id);
        self.serve(at, queue, charge);
        let served = self.in_service_queue == Some(queue);
        if served && std::mem::take(&mut self.wait_dispatch) {
            self.waited_rq = Some(id);
        }
        self.queue_mut(queue).dispatched += 1;
        self.observe_dispatch(at, requests, id, queue);
        self.remove(at, requests, id);
        if served {
            self.update_wr_data(at, queue);
            if self.busy_queues() > 1 && self.queue(queue).is_idle_class() {
                self.expire(at, requests, Reason::Exhausted, false);
            }
        }
        self.rq_in_driver += 1;
    }

    /// A recorded kernel took this request: its queue is in service, whatever ours would have chosen.
    pub(super) fn take_recorded(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let queue = self.data[id].queue();
        if self.in_service_queue.is_some_and(|served| served != queue) {
            let found = self.reason_to_expire(at, requests);
            let reason = found.unwrap_or(Reason::Timeout);
            self.expire(at, requests, reason, false);
        }
        if self.in_service_queue.is_none() {
            self.put_recorded_in_service(at, queue);
            self.open_slice(at, queue);
        }
        self.stop_waiting(queue);
        self.take(at, requests, id);
    }
}
