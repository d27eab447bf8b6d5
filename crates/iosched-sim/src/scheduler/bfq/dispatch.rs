//! Which request goes to the disk: the queue in service, unless its slot is over, and its next request.

use super::Bfq;
use super::expire::Reason;
use super::moment::Moment;
use super::queue::QueueId;
use crate::request::{RequestId, Requests};

impl Bfq {
    /// The queue whose next request goes to the disk now; none if there is nothing, or it is better to
    /// wait.
    pub(super) fn select(&mut self, at: Moment, requests: &Requests) -> Option<QueueId> {
        if self.busy_queues() == 0 || self.tunables.strict_guarantees && self.in_driver > 0 {
            return None;
        }
        if self.in_service.is_some() {
            let reason = self.reason_to_expire(at, requests);
            let Some(reason) = reason else {
                return self.serve_or_wait(requests);
            };
            self.expire(at, requests, reason, false);
        }
        loop {
            self.begin_slot(at)?;
            if self.reason_to_expire_now(requests).is_none() {
                return self.serve_or_wait(requests);
            }
            let reason = self.reason_to_expire_now(requests);
            self.expire(at, requests, reason?, false);
        }
    }

    /// Why the slot of the queue in service is over before it gives another request.
    pub(super) fn reason_to_expire(&self, at: Moment, requests: &Requests) -> Option<Reason> {
        let id = self.in_service?;
        if self.may_time_out(at, id) && !self.must_idle(id) {
            return Some(Reason::Timeout);
        }
        self.reason_to_expire_now(requests)
    }

    /// The same without regard to its time.
    fn reason_to_expire_now(&self, requests: &Requests) -> Option<Reason> {
        let id = self.in_service?;
        let queue = self.queue(id);
        if let Some(next) = queue.next {
            let fits = self.charge(requests, id, next) <= queue.budget_left();
            return (!fits).then_some(Reason::Exhausted);
        }
        let is_kept = queue.waiting || queue.dispatched > 0 && self.better_to_idle(id);
        (!is_kept).then_some(Reason::NoMore)
    }

    /// The queue in service keeps its slot: its request, or that of another one while it has none.
    fn serve_or_wait(&mut self, requests: &Requests) -> Option<QueueId> {
        let id = self.in_service?;
        if self.queue(id).next.is_none() {
            return self.choose_injected(requests, id);
        }
        if self.queue(id).waiting {
            self.stop_waiting(id);
        }
        Some(id)
    }

    /// The next queue comes into service.
    fn begin_slot(&mut self, at: Moment) -> Option<QueueId> {
        let id = self.put_next_in_service(at)?;
        self.open_slot(at, id);
        Some(id)
    }

    fn open_slot(&mut self, at: Moment, id: QueueId) {
        self.queue_mut(id).fifo_checked = false;
        self.count_slot();
        self.lengthen_soft_rt(at, id);
        let times = if self.is_soft_rt(id) {
            1
        } else {
            let entity = &self.queue(id).entity;
            entity.weight / entity.orig_weight
        };
        self.budget_start = at.ns;
        self.queue_mut(id).budget_timeout = at.tick + self.tunables.timeout * times;
        self.in_serv_pos = crate::units::Sector::ZERO;
    }

    /// Takes a request out of its queue, for the disk.
    pub(super) fn take(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let queue = self.data[id].queue();
        let charge = self.charge(requests, queue, id);
        self.serve(at, queue, charge);
        let served = self.in_service == Some(queue);
        if served && std::mem::take(&mut self.measures_next) {
            self.measured = Some(id);
        }
        self.queue_mut(queue).dispatched += 1;
        self.observe_dispatch(at, requests, id, queue);
        self.remove(at, requests, id);
        if served {
            self.check_raise(at, queue);
            if self.busy_queues() > 1 && self.queue(queue).is_idle_class() {
                self.expire(at, requests, Reason::Exhausted, false);
            }
        }
        self.in_driver += 1;
    }

    /// A recorded kernel took this request: its queue is in service, whatever ours would have chosen.
    pub(super) fn take_recorded(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let queue = self.data[id].queue();
        if self.in_service.is_some_and(|served| served != queue) {
            let found = self.reason_to_expire(at, requests);
            let reason = found.unwrap_or(Reason::Timeout);
            self.expire(at, requests, reason, false);
        }
        if self.in_service.is_none() {
            self.put_recorded_in_service(at, queue);
            self.open_slot(at, queue);
        }
        self.stop_waiting(queue);
        self.take(at, requests, id);
    }
}
