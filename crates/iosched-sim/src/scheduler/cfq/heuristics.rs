//! What is learned from each request: think time, seeks, whether the drive queues commands.

use super::process::ContextId;
use super::queue::QueueId;
use super::{Cfq, RequestData};
use crate::request::{PriorityClass, RequestId, Requests};
use crate::units::{Nanos, Sector, Sectors, Time};

/// Farther than this from the last request of its queue, a request is a seek.
const SEEK_THRESHOLD: Sectors = Sectors::new(800);
/// Shorter than this, a request counts as a seek on a device that is not rotational.
const SMALL_REQUEST: Sectors = Sectors::new(64);
/// Requests in the drive from which on it is taken to queue them.
const HW_QUEUE_MIN: u64 = 5;

impl Cfq {
    /// `cfq_update_io_thinktime()`, `cfq_update_io_seektime()`.
    pub(super) fn update_think_and_seek(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let RequestData { queue, context, .. } = self.data_of(id);
        let request = &requests[id];
        let idle = self.tunables.slice_idle;
        if self.queue(queue).sync {
            self.contexts[context].think.came(now, idle);
            self.tree_of_mut(queue).think.came(now, idle);
        }
        if self.tunables.group_idle > Nanos::ZERO {
            let group_idle = self.tunables.group_idle;
            self.group_of_mut(queue).think.came(now, group_idle);
        }
        let rotational = self.kernel.rotational;
        let entry = self.queue_mut(queue);
        let last = entry.last_request_end;
        let distance = if last == Sector::ZERO {
            Sectors::ZERO
        } else {
            last.distance(request.start)
        };
        let far = if rotational {
            distance > SEEK_THRESHOLD
        } else {
            request.length < SMALL_REQUEST
        };
        entry.seeks.note(far);
        self.update_idle_window(requests, queue, context);
        self.queue_mut(queue).last_request_end = request.end();
    }

    /// Is this queue one to wait for (`cfq_update_idle_window`)?
    pub(super) fn update_idle_window(
        &mut self,
        requests: &Requests,
        id: QueueId,
        context: ContextId,
    ) {
        let queue = self.queue(id);
        if !queue.sync || queue.class == PriorityClass::Idle {
            return;
        }
        let deep = queue.deep || queue.queued[0] + queue.queued[1] >= 4;
        let idle = self.tunables.slice_idle;
        let next_says_no = queue.next.is_some_and(|next| requests[next].noidle);
        let gone = !self.contexts[context].alive;
        let window = if next_says_no || gone || idle == Nanos::ZERO || (!deep && queue.is_seeky()) {
            false
        } else {
            let mean = self.contexts[context].think.mean();
            mean.map_or(queue.idle_window, |mean| mean <= idle)
        };
        let queue = self.queue_mut(id);
        queue.deep = deep;
        queue.idle_window = window;
    }

    /// Does the drive queue commands? Learned from how many it holds when there is enough to do.
    /// `cfq_update_hw_tag()`.
    pub(super) fn learn_hw_tag(&mut self) {
        self.hw_tag_depth = self.hw_tag_depth.max(self.rq_in_driver);
        if self.hw_tag == Some(true) {
            return;
        }
        if self.rq_queued <= HW_QUEUE_MIN && self.rq_in_driver <= HW_QUEUE_MIN {
            return;
        }
        if let Some(active) = self.active {
            let queue = self.queue(active);
            let held = queue.dispatched + queue.queued[0] + queue.queued[1];
            if queue.idle_window && held < HW_QUEUE_MIN && self.rq_in_driver < HW_QUEUE_MIN {
                return;
            }
        }
        self.hw_tag_samples += 1;
        if self.hw_tag_samples > 50 {
            self.hw_tag = Some(self.hw_tag_depth >= HW_QUEUE_MIN);
        }
    }
}
