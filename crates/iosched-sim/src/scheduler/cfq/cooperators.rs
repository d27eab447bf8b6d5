//! Queues whose processes read next to one another are joined, and split when they no longer do.

use super::Cfq;
use super::queue::QueueId;
use crate::request::{PriorityClass, Requests};
use crate::units::{Sector, Sectors};

/// As near as this to the last request served, another queue's request is as good as its own.
const CLOSE: Sectors = Sectors::new(8192);

impl Cfq {
    /// `cfq_prio_tree_add()`.
    pub(super) fn place_among_cooperators(&mut self, requests: &Requests, id: QueueId) {
        self.leave_cooperators(id);
        let queue = self.queue(id);
        let Some(next) = queue.next.filter(|_| queue.class != PriorityClass::Idle) else {
            return;
        };
        let position = requests[next].start;
        let tree = &mut self.cooperators[usize::from(queue.original_level)];
        // Of two at the same position the later one stays out.
        if tree.at(position).is_none() {
            tree.insert(position, id);
            self.queue_mut(id).cooperator_key = Some(position);
        }
    }

    pub(super) fn leave_cooperators(&mut self, id: QueueId) {
        let queue = self.queue_mut(id);
        if let Some(position) = queue.cooperator_key.take() {
            let level = usize::from(queue.original_level);
            self.cooperators[level].remove(position, id);
        }
    }

    /// `cfq_rq_close()`.
    pub(super) fn is_close(&self, position: Sector) -> bool {
        position.distance(self.last_position) <= CLOSE
    }

    /// Another queue whose next request lies where the last one ended, or near it.
    /// `cfq_close_cooperator()`, `cfqq_close()`.
    pub(super) fn close_cooperator(&self, requests: &Requests, id: QueueId) -> Option<QueueId> {
        let queue = self.queue(id);
        let alone = self.group_of(id).queues == 1;
        if queue.class == PriorityClass::Idle || !queue.sync || queue.is_seeky() || alone {
            return None;
        }
        let tree = &self.cooperators[usize::from(queue.original_level)];
        let near = |found: Option<(Sector, QueueId)>| {
            found.map(|(_, found)| found).filter(|&found| {
                let next = self.queue(found).next;
                next.is_some_and(|next| self.is_close(requests[next].start))
            })
        };
        let at_or_after = near(tree.at_or_after(self.last_position));
        let found = at_or_after.or_else(|| near(tree.before(self.last_position)))?;
        let other = self.queue(found);
        let same_kind = other.sync
            && other.group == queue.group
            && !other.is_seeky()
            && (other.class == PriorityClass::RealTime) == (queue.class == PriorityClass::RealTime);
        same_kind.then_some(found)
    }

    /// Decides that two queues become one, toward the one with more processes (`cfq_setup_merge()`).
    pub(super) fn set_up_merge(&mut self, queue: QueueId, other: QueueId) {
        let mut target = other;
        if self.queue(target).process_refs == 0 {
            return;
        }
        while let Some(next) = self.queue(target).merge_into {
            if next == queue {
                return;
            }
            target = next;
        }
        let (refs, target_refs) = (
            self.queue(queue).process_refs,
            self.queue(target).process_refs,
        );
        if refs == 0 || target_refs == 0 {
            return;
        }
        if target_refs >= refs {
            self.queue_mut(queue).merge_into = Some(target);
            self.queue_mut(target).process_refs += refs;
        } else {
            self.queue_mut(target).merge_into = Some(queue);
            self.queue_mut(queue).process_refs += target_refs;
        }
    }
}
