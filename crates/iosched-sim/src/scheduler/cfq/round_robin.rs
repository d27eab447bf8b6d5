//! Which queues are to be served, and where each stands in its service tree.

use super::queue::QueueId;
use super::{Cfq, signed};
use crate::request::{PriorityClass, Requests};
use crate::units::Time;

/// How far behind all others the idle class stands.
const IDLE_DELAY: i64 = 200_000_000;
/// How far before all others a preempting queue stands.
const FRONT: i64 = 1_000_000_000;

impl Cfq {
    /// `cfq_add_cfqq_rr()`.
    pub(super) fn add_to_rr(&mut self, now: Time, requests: &Requests, queue: QueueId) {
        self.queue_mut(queue).on_rr = true;
        self.busy_queues += 1;
        if self.queue(queue).sync {
            self.busy_sync_queues += 1;
        }
        self.resort(now, requests, queue);
    }

    /// `cfq_del_cfqq_rr()`.
    pub(super) fn remove_from_rr(&mut self, queue: QueueId) {
        self.queue_mut(queue).on_rr = false;
        if let Some((tree, key)) = self.queue_mut(queue).tree.take() {
            self.group_of_mut(queue).tree_mut(tree).remove(key, queue);
            self.queue_left(self.queue(queue).group);
        }
        self.leave_cooperators(queue);
        self.busy_queues -= 1;
        if self.queue(queue).sync {
            self.busy_sync_queues -= 1;
        }
    }

    /// Gives a queue that is to be served a fresh place (`cfq_resort_rr_list()`).
    pub(super) fn resort(&mut self, now: Time, requests: &Requests, queue: QueueId) {
        if self.queue(queue).on_rr {
            self.place_in_tree(now, queue, false);
            self.place_among_cooperators(requests, queue);
        }
    }

    /// `cfq_service_tree_add()`.
    pub(super) fn place_in_tree(&mut self, now: Time, id: QueueId, front: bool) {
        let tree = self.queue(id).tree_by_flags();
        let key = if self.queue(id).class == PriorityClass::Idle {
            signed(now) + IDLE_DELAY
        } else if front {
            self.group_of(id)
                .tree(tree)
                .first()
                .map_or(signed(now), |(key, _)| key)
                - FRONT
        } else {
            let key = signed(now) + self.slice_offset(id) - self.queue(id).slice_resid;
            self.queue_mut(id).slice_resid = 0;
            key
        };
        if let Some((old_tree, old_key)) = self.queue(id).tree {
            if old_key == key && old_tree == tree {
                return;
            }
            self.group_of_mut(id).tree_mut(old_tree).remove(old_key, id);
        } else {
            self.queue_entered(self.queue(id).group);
        }
        self.group_of_mut(id).tree_mut(tree).insert(key, id);
        self.queue_mut(id).tree = Some((tree, key));
    }

    /// How much later than the best level this one comes: more, the more queues there are (`cfq_slice_offset()`).
    #[expect(clippy::cast_possible_wrap, reason = "a count of queues")]
    pub(super) fn slice_offset(&self, id: QueueId) -> i64 {
        let queue = self.queue(id);
        let difference =
            self.priority_slice(true, 0) - self.priority_slice(queue.sync, queue.level);
        (self.group_of(id).queues as i64 - 1) * difference
    }
}
