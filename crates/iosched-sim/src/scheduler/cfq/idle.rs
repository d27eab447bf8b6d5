//! Idling: is it worth leaving the disk idle until a queue's next request comes?

use super::queue::QueueId;
use super::tree::ServiceTree;
use super::{Cfq, signed, span};
use crate::request::{PriorityClass, ProcessId, Request};
use crate::units::{Nanos, Sectors, Time};

/// One page: a larger request ends the wait for it at once.
const PAGE: Sectors = Sectors::new(8);

impl Cfq {
    /// Is it worth waiting for this queue's next request (`cfq_should_idle`)?
    pub(super) fn should_idle(&self, id: QueueId) -> bool {
        let queue = self.queue(id);
        let idle = self.tunables.slice_idle;
        if idle == Nanos::ZERO || queue.class == PriorityClass::Idle {
            return false;
        }
        if queue.idle_window && !self.is_fast_and_queues() {
            return true;
        }
        let tree = self.tree_of(id);
        tree.len() == 1 && queue.sync && !tree.think.is_longer_than(idle)
    }

    /// A disk without seeks that has more commands than one at a time: waiting for a queue gains nothing there.
    fn is_fast_and_queues(&self) -> bool {
        !self.kernel.rotational && self.drive_queues()
    }

    /// The tree where a queue stands, or would.
    pub(super) fn tree_of(&self, id: QueueId) -> &ServiceTree {
        self.group_of(id).tree(self.queue(id).tree_or_next())
    }

    /// The same, to be changed.
    pub(super) fn tree_of_mut(&mut self, id: QueueId) -> &mut ServiceTree {
        let tree = self.queue(id).tree_or_next();
        self.group_of_mut(id).tree_mut(tree)
    }

    /// The active queue ran empty: wait for its next request, if that is worth it (`cfq_arm_slice_timer`).
    pub(super) fn arm_slice_timer(&mut self, now: Time, id: QueueId) {
        let group_idle = self.tunables.group_idle;
        if self.is_fast_and_queues() && group_idle == Nanos::ZERO {
            return;
        }
        let mut idle = self.tunables.slice_idle;
        let for_group = !self.should_idle(id);
        if for_group {
            if group_idle == Nanos::ZERO {
                return;
            }
            idle = group_idle;
        }
        if self.queue(id).dispatched > 0 {
            return;
        }
        let context = self.active_context.map(|context| &self.contexts[context]);
        if !context.is_some_and(|context| context.alive) || self.thinks_past_slice(now, id) {
            return;
        }
        let tree = self.tree_of(id);
        if for_group && (self.group_of(id).queues > 1 || tree.think.is_longer_than(group_idle)) {
            return;
        }
        self.queue_mut(id).wait_request = true;
        self.idle_timer = Some(now + idle);
    }

    /// The queue is alone in its group, empty, and its slice will be over before the next request
    /// comes: wait for it all the same, so that the group is not lost (`cfq_should_wait_busy()`).
    pub(super) fn should_wait_busy(&self, now: Time, id: QueueId) -> bool {
        if !self.queue(id).is_empty() || self.group_of(id).queues > 1 {
            return false;
        }
        if self
            .group_of(id)
            .think
            .is_longer_than(self.tunables.group_idle)
        {
            return false;
        }
        if self.slice_used(now, id) {
            return true;
        }
        let left = self.queue(id).slice_end - signed(now);
        self.thinks_past_slice(now, id) || left <= self.tick()
    }

    /// The process that is served thinks for longer, on average, than what is left of this queue's slice.
    fn thinks_past_slice(&self, now: Time, id: QueueId) -> bool {
        let left = self.queue(id).slice_end - signed(now);
        let context = self.active_context.map(|context| &self.contexts[context]);
        let mean = context.and_then(|context| context.think.mean());
        mean.is_some_and(|mean| left < span(mean))
    }

    /// A request of the active queue came. If it was waited for, a large one, or any while others
    /// wait too, ends the wait at once (true); a small one may be followed by its neighbours, and
    /// ends it when the queue is run next (`cfq_rq_enqueued()`).
    pub(super) fn end_wait(&mut self, request: &Request, id: QueueId) -> bool {
        if !self.queue(id).wait_request {
            return false;
        }
        if request.length > PAGE || self.busy_queues > 1 {
            self.idle_timer = None;
            self.queue_mut(id).wait_request = false;
            return true;
        }
        self.queue_mut(id).must_dispatch = true;
        false
    }

    /// The disk stays idle until this process's next request: once in a slice it is not to wait for
    /// a place among `nr_requests` (`cfq_may_queue()`).
    pub(super) fn claim_must_allocate(&mut self, process: ProcessId, sync: bool) -> bool {
        let context = self.contexts.find(process);
        let queue = context.and_then(|context| {
            let context = &self.contexts[context];
            if sync {
                context.sync_queue
            } else {
                context.async_queue
            }
        });
        let Some(queue) = queue.map(|queue| self.queue_mut(queue)) else {
            return false;
        };
        queue.wait_request && !std::mem::replace(&mut queue.must_allocate, true)
    }
}
