//! May a new request take the disk from the queue that has it?

use super::Cfq;
use super::group::ROOT;
use super::queue::{Queue, QueueId, Type};
use crate::request::{PriorityClass, RequestId, Requests};
use crate::units::Time;

impl Cfq {
    /// May this request's queue take the disk from the active one?
    /// (`cfq_should_preempt()`)
    pub(super) fn should_preempt(&self, now: Time, requests: &Requests, id: RequestId) -> bool {
        let Some(active_id) = self.active else {
            return false;
        };
        let new = self.queue(self.data_of(id).queue);
        let active = self.queue(active_id);
        let request = &requests[id];
        if new.class == PriorityClass::Idle {
            return false;
        }
        if active.class == PriorityClass::Idle {
            return true;
        }
        let real_time = |queue: &Queue| queue.class == PriorityClass::RealTime;
        if real_time(active) && !real_time(new) {
            return false;
        }
        if request.sync && !active.sync && !active.must_dispatch {
            return true;
        }
        if new.group != ROOT && new.group != active.group {
            return false;
        }
        if self.slice_used(now, active_id) {
            return true;
        }
        if real_time(new) && !real_time(active) {
            return true;
        }
        let no_idle = Type::SyncNoIdle;
        if self.serving_type == no_idle && new.kind() == no_idle && active.is_empty() {
            return true;
        }
        if request.prio && active.prio_pending == 0 {
            return true;
        }
        if active.is_empty() && !self.should_idle(active_id) {
            return true;
        }
        if self.active_context.is_none() || !active.wait_request {
            return false;
        }
        self.is_close(request.start)
    }

    /// `cfq_preempt_queue()`.
    pub(super) fn preempt(&mut self, now: Time, requests: &Requests, id: QueueId) {
        let old = self
            .queue(self.active.expect("only an active queue is preempted"))
            .kind();
        self.expire(now, requests, true);
        if old != self.queue(id).kind() {
            self.group_of_mut(id).saved = None;
        }
        self.place_in_tree(now, id, true);
        let queue = self.queue_mut(id);
        queue.slice_end = 0;
        queue.slice_new = true;
    }
}
