//! A request has completed: what that tells of the disk, and what becomes of the queue in service.

use super::Bfq;
use super::expire::Reason;
use super::moment::Moment;
use super::queue::QueueId;
use super::weight_raising::INTERACTIVE;
use crate::request::{RequestId, Requests};

/// A disk that has more than these at a time queues them.
const QUEUES: u64 = 3;

/// Samples that decide whether it does.
const SAMPLES: u32 = 32;

/// Does the disk queue commands?
#[derive(Debug, Clone, Default)]
pub(super) struct HwTag {
    pub(super) known: Option<bool>,
    pub(super) samples: u32,
    /// The most requests that it had at a time, since this was decided last.
    pub(super) max_rq_in_driver: u64,
}

impl Bfq {
    /// The disk is done with a request (`bfq_completed_request()`).
    pub(super) fn complete(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let queue = self.data[id].queue();
        self.end_measurement(at, queue, id);
        self.learn_hw_tag();
        self.rq_in_driver -= 1;
        self.queue_mut(queue).dispatched -= 1;
        let entry = self.queue(queue);
        if entry.dispatched == 0 && !entry.busy {
            self.queue_mut(queue).budget_timeout = at.tick;
            self.uncount_weight(queue);
        }
        self.queue_mut(queue).think.last_end = at.ns;
        self.observe_completion(at);
        let entry = self.queue(queue);
        self.last_completed_rq_bfqq = (!entry.coop).then_some(queue);
        self.update_soft_rt(at, queue);
        if self.in_service_queue == Some(queue) && self.goes_on(at, requests, queue) {
            return;
        }
        if self.rq_in_driver == 0 {
            self.request_run_if_queued();
        }
    }

    /// The queue has just finished what it had begun: how soon would its next request be too early for
    /// soft real time?
    fn update_soft_rt(&mut self, at: Moment, id: QueueId) {
        let queue = self.queue(id);
        let is_done = queue.softrt_update && queue.dispatched == 0 && queue.is_empty();
        if is_done && queue.wr.coeff != INTERACTIVE {
            let next = self.soft_rt_next_start(at, id);
            self.queue_mut(id).soft_rt_next_start = next;
        }
    }

    /// A request of the queue in service has completed. True if its next one is waited for.
    fn goes_on(&mut self, at: Moment, requests: &Requests, id: QueueId) -> bool {
        if self.must_idle(id) {
            if self.queue(id).dispatched == 0 {
                self.arm_idle_timer(at, id);
            }
            return true;
        }
        let queue = self.queue(id);
        if self.may_time_out(at, id) {
            self.expire(at, requests, Reason::Timeout, false);
        } else if queue.is_empty() && (queue.dispatched == 0 || !self.better_to_idle(id)) {
            self.expire(at, requests, Reason::NoMore, false);
        }
        false
    }

    /// The request that completes still counts as being in the disk (`bfq_update_hw_tag()`).
    pub(super) fn learn_hw_tag(&mut self) {
        let in_driver = self.rq_in_driver;
        self.hw_tag.max_rq_in_driver = self.hw_tag.max_rq_in_driver.max(in_driver);
        if self.hw_tag.known == Some(true) || in_driver + self.queued <= QUEUES {
            return;
        }
        if let Some(served) = self.in_service_queue {
            let queue = self.queue(served);
            let own = u64::from(queue.dispatched + queue.queued[0] + queue.queued[1]);
            if queue.has_short_ttime && own < QUEUES && in_driver < QUEUES {
                return; // it is kept from queueing
            }
        }
        if self.hw_tag.samples < SAMPLES {
            self.hw_tag.samples += 1;
            return;
        }
        self.hw_tag = HwTag {
            known: Some(self.hw_tag.max_rq_in_driver > QUEUES),
            ..HwTag::default()
        };
        self.nonrot_with_queueing = !self.rotational && self.hw_tag.known == Some(true);
    }
}
