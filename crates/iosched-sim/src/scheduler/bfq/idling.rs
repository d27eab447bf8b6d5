//! Idling: is it worth leaving the disk idle until the next request of the queue in service comes, and
//! how long?

use super::Bfq;
use super::expire::Reason;
use super::moment::{MILLI, Moment, time};
use super::queue::QueueId;
use crate::request::Requests;

/// The disk is kept idle for queues that seek no longer than this, if nothing else asks for more.
const FOR_SEEKY: i64 = 2 * MILLI;

/// And for those that are weight-raised at least this long.
const FOR_RAISED: i64 = 20 * MILLI;

/// With as many more of other queues' requests in the disk a weight-raised queue needs protection.
const CROWD: u64 = 4;

impl Bfq {
    /// Idling makes the disk do more, and takes nothing from weight-raised queues (`idling_boosts_thr_without_issues()`).
    pub(super) fn idling_boosts(&self, id: QueueId) -> bool {
        let queue = self.queue(id);
        if queue.process_refs == 0 || self.wr_busy_queues > 0 {
            return false;
        }
        let one_at_a_time = self.hw_tag.known == Some(false);
        let sequential = !queue.is_seeky() && queue.io_bound && queue.has_short_ttime;
        self.rotational && one_at_a_time || (self.rotational || one_at_a_time) && sequential
    }

    /// Without idling the queue would not get its share (`idling_needed_for_service_guarantees()`).
    pub(super) fn needs_idling(&self, id: QueueId) -> bool {
        let queue = self.queue(id);
        if queue.process_refs == 0 {
            return false;
        }
        let others_not_raised = self.wr_busy_queues < self.busy_queues();
        let crowded = self.rq_in_driver >= u64::from(queue.dispatched) + CROWD;
        queue.is_weight_raised() && (others_not_raised || crowded)
            || self.is_asymmetric(id)
            || self.busy_queues() == 1
    }

    /// The queue's next request is worth waiting for (`bfq_better_to_idle()`).
    pub(super) fn better_to_idle(&self, id: QueueId) -> bool {
        let queue = self.queue(id);
        if queue.process_refs == 0 {
            return false;
        }
        if self.tunables.strict_guarantees {
            return true;
        }
        if self.slice_idle == 0 || !queue.sync || queue.is_idle_class() {
            return false;
        }
        self.idling_boosts(id) || self.needs_idling(id)
    }

    /// It is empty, and its next request is to be waited for (`bfq_bfqq_must_idle()`).
    pub(super) fn must_idle(&self, id: QueueId) -> bool {
        self.queue(id).is_empty() && self.better_to_idle(id)
    }

    /// Its slice has lasted long enough, and either nothing is waited for or too much of it is left to
    /// wait on (`bfq_may_expire_for_budg_timeout()`).
    pub(super) fn may_time_out(&self, at: Moment, id: QueueId) -> bool {
        let queue = self.queue(id);
        let much_left = queue.budget_left() >= queue.entity.budget / 3;
        (!queue.wait_request || much_left) && queue.is_out_of_time(at)
    }

    /// The disk is kept idle from now on (`bfq_arm_slice_timer()`).
    pub(super) fn arm_idle_timer(&mut self, at: Moment, id: QueueId) {
        let queue = self.queue(id);
        let length = if queue.is_weight_raised() {
            self.slice_idle.max(FOR_RAISED)
        } else if queue.is_seeky() && !self.is_asymmetric(id) {
            self.slice_idle.min(FOR_SEEKY)
        } else {
            self.slice_idle
        };
        self.queue_mut(id).wait_request = true;
        self.last_idling_start = at.ns;
        self.idle_timer = Some(time(at.ns + length));
    }

    /// No request is waited for any more (`bfq_clear_bfqq_wait_request()`).
    pub(super) fn stop_waiting(&mut self, id: QueueId) {
        self.queue_mut(id).wait_request = false;
        self.idle_timer = None;
    }

    /// The idle timer went off (`bfq_idle_slice_timer_body()`).
    pub(super) fn idled_long_enough(&mut self, at: Moment, requests: &Requests) {
        self.idle_timer = None;
        let Some(id) = self.in_service_queue else {
            return;
        };
        self.queue_mut(id).wait_request = false;
        let queue = self.queue(id);
        if queue.is_out_of_time(at) {
            self.expire(at, requests, Reason::Timeout, true);
        } else if queue.is_empty() {
            self.expire(at, requests, Reason::TooIdle, true);
        }
        self.request_run_if_queued();
    }

    /// A worker is to run the queue (`bfq_schedule_dispatch()`).
    pub(super) fn request_run_if_queued(&mut self) {
        self.run_requested |= self.queued > 0;
    }
}
