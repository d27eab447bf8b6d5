//! Which queue is served: the rule of cfq.

use super::queue::{QueueId, TYPES, TreeId, Type};
use super::{Cfq, share_of, signed, span};
use crate::request::{PriorityClass, Requests};
use crate::units::{Nanos, Time};

impl Cfq {
    /// The queue that may dispatch now (`cfq_select_queue`).
    pub(super) fn select_queue(&mut self, now: Time, requests: &Requests) -> Option<QueueId> {
        let Some(id) = self.active else {
            return self.next_queue(now);
        };
        if self.rq_queued == 0 {
            return None;
        }
        let has_requests = !self.queue(id).is_empty();
        if self.queue(id).wait_busy && has_requests {
            self.expire(now, requests, false);
            return self.next_queue(now);
        }
        if self.slice_used(now, id) && !self.queue(id).must_dispatch {
            let last_one = self.group_of(id).queues == 1 && !has_requests;
            if last_one && self.queue(id).dispatched > 0 && self.should_idle(id) {
                return None;
            }
            return self.after_group_idle(now, requests, id);
        }
        if has_requests {
            return Some(id);
        }
        if let Some(other) = self.close_cooperator(requests, id) {
            if self.queue(id).merge_into.is_none() {
                self.set_up_merge(id, other);
            }
            self.expire(now, requests, false);
            self.set_active_queue(now, Some(other));
            return Some(other);
        }
        if self.idle_timer.is_some() {
            return None;
        }
        self.stop_idling_if_fast(now, id);
        if self.queue(id).dispatched > 0 && self.should_idle(id) {
            return None;
        }
        self.after_group_idle(now, requests, id)
    }

    /// The active queue is done, unless the group is to be waited for.
    pub(super) fn after_group_idle(
        &mut self,
        now: Time,
        requests: &Requests,
        id: QueueId,
    ) -> Option<QueueId> {
        let idle = self.tunables.group_idle;
        let group = self.group_of(id);
        let waits = idle > Nanos::ZERO
            && group.queues == 1
            && group.dispatched > 0
            && !group.think.is_longer_than(idle);
        if waits {
            return None;
        }
        self.expire(now, requests, false);
        self.next_queue(now)
    }

    /// A seeky queue whose requests are answered faster than it sends them is not waited for.
    pub(super) fn stop_idling_if_fast(&mut self, now: Time, id: QueueId) {
        let now = signed(now);
        let queue = self.queue_mut(id);
        // Unsigned in the kernel: a slice that has ended counts as endless here.
        let left = queue.slice_end.wrapping_sub(now).cast_unsigned();
        let used = now.wrapping_sub(queue.slice_start).cast_unsigned();
        if queue.is_seeky() && queue.idle_window && (queue.slice_new || left > used) {
            queue.deep = false;
            queue.idle_window = false;
        }
    }

    /// `cfq_get_next_queue()`.
    pub(super) fn next_queue(&mut self, now: Time) -> Option<QueueId> {
        self.choose_workload(now);
        let first = if self.rq_queued == 0 {
            None
        } else {
            let tree = TreeId(self.serving_class, self.serving_type);
            self.group(self.serving)
                .tree(tree)
                .first()
                .map(|(_, queue)| queue)
        };
        self.set_active_queue(now, first);
        first
    }

    /// `__cfq_set_active_queue()`.
    pub(super) fn set_active_queue(&mut self, now: Time, id: Option<QueueId>) {
        if let Some(id) = id {
            let queue = self.queue_mut(id);
            queue.chosen = signed(now);
            queue.slice_start = 0;
            queue.slice_end = 0;
            queue.slice_length = 0;
            queue.slice_dispatch = 0;
            queue.wait_request = false;
            queue.must_dispatch = false;
            queue.must_allocate = false;
            queue.fifo_checked = false;
            queue.slice_new = true;
            self.idle_timer = None;
        }
        self.active = id;
    }

    /// Which group, class and type is served: the one that was, while its workload slice lasts.
    /// `choose_wl_class_and_type()`.
    pub(super) fn choose_workload(&mut self, now: Time) {
        if let Some(group) = self.least_served_group() {
            self.serving = group;
            match self.group(group).saved {
                Some((left, class, kind)) => {
                    self.workload_expires = signed(now) + left;
                    self.serving_class = class;
                    self.serving_type = kind;
                }
                None => self.workload_expires = signed(now) - 1,
            }
        }
        let before = self.serving_class;
        let group = self.group(self.serving);
        let class = [PriorityClass::RealTime, PriorityClass::BestEffort]
            .into_iter()
            .find(|&class| group.busy(class) > 0)
            .unwrap_or(PriorityClass::Idle);
        self.serving_class = class;
        if self.serving_class == PriorityClass::Idle {
            self.workload_expires = signed(now) + self.tick();
            return;
        }
        let tree = self
            .group(self.serving)
            .tree(TreeId(self.serving_class, self.serving_type));
        let lasts = signed(now) <= self.workload_expires;
        if before == self.serving_class && !tree.is_empty() && lasts {
            return;
        }
        self.serving_type = self.choose_type();
        self.workload_expires = signed(now) + self.workload_slice();
    }

    /// The type whose first queue is due soonest (`cfq_choose_wl_type()`).
    pub(super) fn choose_type(&self) -> Type {
        let firsts = TYPES.iter().filter_map(|&kind| {
            let group = self.group(self.serving);
            let tree = group.tree(TreeId(self.serving_class, kind));
            tree.first().map(|(key, _)| (key, kind))
        });
        firsts
            .min_by_key(|&(key, _)| key)
            .map_or(Type::Async, |(_, kind)| kind)
    }

    /// A type's share of the latency aimed at, by its number of queues (`choose_wl_class_and_type()`).
    #[expect(clippy::cast_possible_wrap, reason = "counts of queues")]
    pub(super) fn workload_slice(&self) -> i64 {
        let class = self.serving_class;
        let group = self.group(self.serving);
        let busy = group.busy(class);
        let average = group.busy_average[usize::from(class == PriorityClass::RealTime)];
        let count = group.tree(TreeId(class, self.serving_type)).len() as i64;
        let target = span(self.tunables.target_latency);
        let mut slice = self.group_slice(self.serving) * count / average.max(busy).max(1) as i64;
        if self.serving_type == Type::Async {
            let of = |class| group.tree(TreeId(class, Type::Async)).len() as i64;
            let all_async = of(PriorityClass::RealTime) + of(PriorityClass::BestEffort);
            slice = slice.min(target * all_async / (self.busy_queues as i64).max(1));
            let [asynchronous, synchronous] = self.tunables.slice.map(span);
            slice = share_of(slice, asynchronous, synchronous);
        } else {
            slice = slice.max(2 * span(self.tunables.slice_idle));
        }
        slice.max(2 * self.tick())
    }

    #[expect(clippy::cast_possible_wrap, reason = "at most 10 ms")]
    pub(super) fn tick(&self) -> i64 {
        self.kernel.tick_nanos() as i64
    }
}
