//! Slices: how long a queue is served, and what happens when its slice ends.

use super::queue::{GroupId, Queue, QueueId};
use super::{Cfq, share_of, signed, span};
use crate::request::{PriorityClass, Requests};
use crate::units::Time;

impl Cfq {
    /// `cfq_prio_to_slice()`.
    pub(super) fn priority_slice(&self, sync: bool, level: u8) -> i64 {
        let base = span(self.tunables.slice[usize::from(sync)]);
        base + base / 5 * (4 - i64::from(level))
    }

    /// Average number of busy queues in a class: rises fast, falls slowly (`cfq_group_get_avg_queues()`).
    pub(super) fn average_busy(&mut self, group: GroupId, class: PriorityClass) -> u64 {
        let index = usize::from(class == PriorityClass::RealTime);
        let counted = if index == 1 {
            PriorityClass::RealTime
        } else {
            PriorityClass::BestEffort
        };
        let group = self.group_mut(group);
        let busy = group.busy(counted);
        let average = &mut group.busy_average[index];
        let (low, high) = (busy.min(*average), busy.max(*average));
        *average = (3 * high + low + 2) / 4;
        *average
    }

    /// A queue's slice, cut where all slices together would exceed the latency aimed at (`cfq_scaled_cfqq_slice()`).
    #[expect(clippy::cast_possible_wrap, reason = "a count of queues")]
    pub(super) fn scaled_slice(&mut self, id: QueueId) -> i64 {
        let &Queue {
            sync,
            level,
            class,
            group,
            ..
        } = self.queue(id);
        let slice = self.priority_slice(sync, level);
        if !self.tunables.low_latency {
            return slice;
        }
        let queues = self.average_busy(group, class) as i64;
        let sync_slice = span(self.tunables.slice[1]);
        let expected = sync_slice * queues;
        let group_slice = self.group_slice(group);
        if expected <= group_slice {
            return slice;
        }
        let low = share_of(2 * span(self.tunables.slice_idle), slice, sync_slice).min(slice);
        share_of(slice, group_slice, expected).max(low)
    }

    /// `cfq_set_prio_slice()`.
    pub(super) fn set_slice(&mut self, now: Time, id: QueueId) {
        let slice = self.scaled_slice(id);
        let queue = self.queue_mut(id);
        queue.slice_start = signed(now);
        queue.slice_end = signed(now) + slice;
        queue.slice_length = slice;
        queue.slice_new = false;
    }

    /// `cfq_slice_used()`.
    pub(super) fn slice_used(&self, now: Time, id: QueueId) -> bool {
        let queue = self.queue(id);
        !queue.slice_new && signed(now) >= queue.slice_end
    }

    /// Ends the active queue's slice. `timed_out`: it keeps what is left of it (`__cfq_slice_expired()`).
    pub(super) fn expire(&mut self, now: Time, requests: &Requests, timed_out: bool) {
        let Some(id) = self.active else {
            return;
        };
        if self.queue(id).wait_request {
            self.idle_timer = None;
        }
        let resid = timed_out.then(|| {
            if self.queue(id).slice_new {
                self.scaled_slice(id)
            } else {
                self.queue(id).slice_end - signed(now)
            }
        });
        let queue = self.queue_mut(id);
        queue.wait_request = false;
        queue.wait_busy = false;
        if queue.coop && queue.is_seeky() {
            queue.split_coop = true;
        }
        if let Some(resid) = resid {
            queue.slice_resid = resid;
        }
        let left = self.workload_expires - signed(now);
        let workload = (left, self.serving_class, self.serving_type);
        self.group_of_mut(id).saved = (left > 0).then_some(workload);
        self.charge(now, id);
        if self.queue(id).on_rr && self.queue(id).is_empty() {
            self.remove_from_rr(id);
        }
        self.resort(now, requests, id);
        self.active = None;
        self.active_context = None;
        self.release_if_unused(id);
    }
}
