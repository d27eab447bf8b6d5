//! What the completion of a request changes.

use super::queue::QueueId;
use super::{Cfq, RequestData, signed, span};
use crate::request::{PriorityClass, Request, Requests};
use crate::units::{Nanos, Time};

impl Cfq {
    /// One request less in the drive.
    pub(super) fn count_completion(&mut self, id: QueueId) {
        self.rq_in_driver -= 1;
        self.queue_mut(id).dispatched -= 1;
        self.group_of_mut(id).dispatched -= 1;
        self.rq_in_flight[usize::from(self.queue(id).sync)] -= 1;
    }

    /// Think times count from here; a synchronous request that took long is remembered.
    pub(super) fn note_end(&mut self, now: Time, request: &Request, data: RequestData) {
        if request.sync {
            self.contexts[data.context].think.ended(now);
            let queue = self.queue(data.queue);
            let tree = match queue.tree {
                Some((tree, _)) if queue.on_rr => tree,
                _ => queue.tree_by_flags(),
            };
            self.group_of_mut(data.queue)
                .tree_mut(tree)
                .think
                .ended(now);
            if request.allocated + self.tunables.fifo_expire[1] <= now {
                self.last_delayed_sync = signed(now);
            }
        }
        self.group_of_mut(data.queue).think.ended(now);
    }

    /// The request was the active queue's: its slice begins, ends, or waits for the next one (`cfq_completed_request`).
    pub(super) fn go_on_with_active(
        &mut self,
        now: Time,
        requests: &Requests,
        request: &Request,
        id: QueueId,
    ) {
        let empty = self.queue(id).is_empty();
        if self.queue(id).slice_new {
            self.set_slice(now, id);
        }
        if self.should_wait_busy(now, id) {
            let idle = match self.tunables.slice_idle {
                Nanos::ZERO => self.tunables.group_idle,
                idle => idle,
            };
            let queue = self.queue_mut(id);
            queue.slice_end = signed(now) + span(idle);
            queue.wait_busy = true;
        }
        if self.slice_used(now, id) || self.queue(id).class == PriorityClass::Idle {
            self.expire(now, requests, true);
        } else if request.sync && empty && self.close_cooperator(requests, id).is_none() {
            self.arm_slice_timer(now, id);
        }
    }
}
