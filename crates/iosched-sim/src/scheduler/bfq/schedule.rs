//! The schedule, B-WF2Q+: who is served next, by virtual times.
//!
//! Each class has a tree of queues that wait, by the virtual time at which their budget would be used
//! up, and one of queues that have nothing to do and have had more than their share. The next queue is
//! chosen when a queue enters a tree or leaves it, and that choice is kept: service received meanwhile
//! does not change it. Follows `block/bfq-wf2q.c` (Linux 6.1), without groups.

use super::Bfq;
use super::moment::Moment;
use super::queue::{CLASSES, IDLE, QueueId, ScheduleTree};
use super::red_black::Tree;
use crate::sorted::Sorted;

/// Bits of a virtual time behind the point.
const SHIFT: u32 = 22;

/// Virtual time that a service takes at a weight, or at a sum of weights (`bfq_delta()`).
pub(super) fn virtual_time(service: i64, weight: i64) -> u64 {
    let service = u64::try_from(service).unwrap_or(0);
    let weight = u64::try_from(weight).unwrap_or(0).max(1);
    (service << SHIFT) / weight
}

/// The queues of a class.
#[derive(Debug, Clone, Default)]
pub(super) struct ServiceTree {
    pub(super) vtime: u64,
    /// Weights of all that stand on either tree, or are in service.
    pub(super) weights: i64,
    /// By finish.
    pub(super) active: Tree,
    /// By finish.
    pub(super) idle: Sorted<u64, QueueId>,
}

impl Bfq {
    fn tree(&mut self, id: QueueId) -> &mut ServiceTree {
        let class = self.queue(id).class;
        &mut self.service_trees[class]
    }

    /// The queue is served, or charged, these sectors (`bfq_bfqq_served()`).
    pub(super) fn serve(&mut self, at: Moment, id: QueueId, sectors: i64) {
        let queue = self.queue_mut(id);
        if queue.service_from_backlogged == 0 {
            queue.first_io_time = at.tick;
        }
        if queue.is_weight_raised() {
            queue.wr.service += sectors;
        }
        queue.service_from_backlogged += sectors;
        queue.entity.service += sectors;
        let tree = self.tree(id);
        tree.vtime += virtual_time(sectors, tree.weights);
        let class = self.queue(id).class;
        self.forget_idle(class);
    }

    /// The first queue with nothing to do whose finish virtual time has passed is forgotten. Where nobody
    /// waits, virtual time goes back to the last finish that it has passed (`bfq_forget_idle()`).
    fn forget_idle(&mut self, class: usize) {
        let tree = &mut self.service_trees[class];
        if tree.active.is_empty()
            && let Some((last, _)) = tree.idle.last()
            && last <= tree.vtime
        {
            tree.vtime = last;
        }
        if let Some((first, id)) = tree.idle.first()
            && first <= tree.vtime
        {
            tree.idle.remove(first, id);
            self.forget(id);
        }
    }

    /// The schedule knows the queue no more (`bfq_forget_entity()`).
    fn forget(&mut self, id: QueueId) {
        let entity = &mut self.queue_mut(id).entity;
        entity.place = ScheduleTree::Nowhere;
        entity.in_sum = false;
        let weight = entity.weight;
        self.tree(id).weights -= weight;
        self.release_if_unused(id);
    }

    /// The queue has something to do: it waits to be served. Its budget is set (`__bfq_activate_entity()`).
    pub(super) fn activate(&mut self, at: Moment, id: QueueId) {
        let vtime = self.tree(id).vtime;
        let queue = self.queue(id);
        let finish = queue.entity.finish;
        let backshifted = queue.non_blocking_wait_rq && vtime > finish;
        let base = if backshifted { finish } else { vtime };
        if queue.entity.place == ScheduleTree::Idle {
            self.tree(id).idle.remove(finish, id);
            self.queue_mut(id).entity.start = base.max(finish);
        } else {
            let entity = &mut self.queue_mut(id).entity;
            entity.start = base;
            entity.in_sum = true;
            let weight = entity.weight;
            self.tree(id).weights += weight;
        }
        self.enqueue(id, backshifted);
        self.reconsider_next(at, Some(id), false);
        self.queue_mut(id).non_blocking_wait_rq = false;
    }

    /// The queue goes on waiting, with another budget or after its slice (`__bfq_requeue_entity()`).
    pub(super) fn requeue(&mut self, at: Moment, id: QueueId, expiration: bool) {
        if self.in_service_queue == Some(id) {
            let entity = &mut self.queue_mut(id).entity;
            entity.finish = entity.start + virtual_time(entity.service, entity.weight);
            entity.start = entity.finish;
        } else {
            self.extract(id);
        }
        self.enqueue(id, false);
        self.reconsider_next(at, Some(id), expiration);
    }

    /// `bfq_active_extract()`.
    fn extract(&mut self, id: QueueId) {
        self.tree(id).active.remove(id);
        self.queue_mut(id).entity.place = ScheduleTree::Nowhere;
        self.active_list.retain(|&other| other != id);
    }

    /// `bfq_update_fin_time_enqueue()`.
    fn enqueue(&mut self, id: QueueId, backshifted: bool) {
        self.apply_priority(id, true);
        let vtime = self.tree(id).vtime;
        let queue = self.queue_mut(id);
        let factor = u64::try_from(queue.wr.coeff).unwrap_or(1);
        let entity = &mut queue.entity;
        entity.finish = entity.start + virtual_time(entity.budget, entity.weight);
        if backshifted && vtime > entity.finish {
            let shift = (vtime - entity.finish) / factor;
            entity.start += shift;
            entity.finish += shift;
        }
        entity.place = ScheduleTree::Active;
        let (start, finish) = (entity.start, entity.finish);
        self.tree(id).active.insert(id, finish, start);
        self.active_list.push(id);
    }

    /// A change of weight, weight-raising or class that was asked for holds from now on; that of the class only
    /// where the queue enters a tree (`__bfq_entity_update_weight_prio()`).
    pub(super) fn apply_priority(&mut self, id: QueueId, class_too: bool) {
        if !self.queue(id).entity.prio_changed {
            return;
        }
        let old_class = self.queue(id).class;
        let queue = self.queue_mut(id);
        let old_weight = queue.entity.weight;
        queue.entity.orig_weight = queue.entity.new_weight;
        if class_too {
            queue.class = queue.new_class;
        }
        queue.entity.prio_changed = queue.class != queue.new_class;
        let (class, factor, busy) = (queue.class, queue.wr.coeff, queue.busy);
        let weight = queue.entity.orig_weight * factor;
        self.service_trees[old_class].weights -= old_weight;
        if weight != old_weight {
            self.uncount_weight(id);
        }
        self.queue_mut(id).entity.weight = weight;
        if weight != old_weight && factor == 1 {
            self.count_weight(id);
        }
        self.service_trees[class].weights += weight;
        if class != old_class {
            self.queue_mut(id).entity.start = self.service_trees[class].vtime;
            if busy {
                self.busy[old_class] -= 1;
                self.busy[class] += 1;
            }
        }
    }

    /// The queue has nothing to do any more, and stands on no tree but perhaps that of the idle.
    /// `__bfq_deactivate_entity()`.
    pub(super) fn deactivate(&mut self, at: Moment, id: QueueId, expiration: bool) {
        if !self.queue(id).entity.in_sum {
            return;
        }
        let in_service_queue = self.in_service_queue == Some(id);
        let entity = &mut self.queue_mut(id).entity;
        entity.finish = entity.start + virtual_time(entity.service, entity.weight);
        let finish = entity.finish;
        if !in_service_queue {
            entity.service = 0;
        }
        let waits = entity.place == ScheduleTree::Active;
        self.slice_is_over |= in_service_queue;
        if waits {
            self.extract(id);
        }
        let tree = self.tree(id);
        if finish > tree.vtime {
            tree.idle.insert(finish, id);
            self.queue_mut(id).entity.place = ScheduleTree::Idle;
        } else {
            self.forget_but_keep(id);
        }
        if self.next_in_service == Some(id) {
            self.reconsider_next(at, None, expiration);
        }
    }

    /// As [`Bfq::forget`], of a queue that the caller goes on with.
    fn forget_but_keep(&mut self, id: QueueId) {
        let entity = &mut self.queue_mut(id).entity;
        entity.in_sum = false;
        let weight = entity.weight;
        self.tree(id).weights -= weight;
    }

    /// Who is next, now that this queue has come, or one has gone (`bfq_update_next_in_service()`).
    fn reconsider_next(&mut self, at: Moment, new: Option<QueueId>, expiration: bool) {
        if let Some(new) = new.filter(|&new| self.next_in_service != Some(new))
            && self.comes_before_next(new)
        {
            self.next_in_service = Some(new);
        } else {
            self.next_in_service = self.look_up_next(at, expiration);
        }
    }

    /// The queue is the better choice, whatever the trees look like.
    fn comes_before_next(&self, new: QueueId) -> bool {
        let Some(next) = self.next_in_service else {
            return true;
        };
        let (new, next) = (self.queue(new), self.queue(next));
        new.class == next.class
            && new.entity.start <= self.service_trees[new.class].vtime
            && new.entity.finish < next.entity.finish
    }

    /// Looks the next queue up. The idle class comes first if it was not looked at for a fifth of a second.
    /// `bfq_lookup_next_entity()`.
    fn look_up_next(&mut self, at: Moment, expiration: bool) -> Option<QueueId> {
        let mut classes = 0..CLASSES;
        if self.class_idle_last_service + self.clock.idle_class < at.tick {
            self.class_idle_last_service = at.tick;
            if !self.service_trees[IDLE].active.is_empty() {
                classes = IDLE..CLASSES;
            }
        }
        let serves = self.in_service_queue.is_some() && !self.slice_is_over;
        let jumps = !serves || expiration;
        classes.into_iter().find_map(|class| {
            let tree = &mut self.service_trees[class];
            let vtime = tree.vtime.max(tree.active.least_start()?);
            if jumps && vtime > tree.vtime {
                tree.vtime = vtime;
                self.forget_idle(class);
            }
            self.service_trees[class].active.eligible(vtime)
        })
    }

    /// Puts the queue that is next in service (`bfq_get_next_queue()`).
    pub(super) fn put_next_in_service(&mut self, at: Moment) -> Option<QueueId> {
        if self.busy_queues() == 0 {
            return None;
        }
        let next = self.next_in_service?;
        self.extract(next);
        self.in_service_queue = Some(next);
        self.slice_is_over = false;
        self.reconsider_next(at, None, false);
        Some(next)
    }

    /// Puts another queue that waits in service, whoever is next: a recorded kernel did.
    pub(super) fn put_recorded_in_service(&mut self, at: Moment, id: QueueId) {
        self.next_in_service = Some(id);
        let put = self.put_next_in_service(at);
        assert!(put == Some(id), "{id:?} has requests: it waits");
    }
}
