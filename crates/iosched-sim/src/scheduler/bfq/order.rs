//! The requests of a queue in the order of positions, and which of them is best served next; the queues
//! by the position of their next request.

use super::Bfq;
use super::moment::{Moment, span};
use super::queue::QueueId;
use crate::request::{RequestId, Requests};
use crate::units::Sector;

impl Bfq {
    /// The best request after this one has gone: the oldest, if its time has come and the slice has not
    /// asked for that yet; else one beside it (`bfq_find_next_rq()`).
    fn find_next(&mut self, at: Moment, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let queue = self.data[id].queue();
        if let Some(oldest) = self.expired_head(at, queue, id) {
            return Some(oldest);
        }
        let sorted = &self.queue(queue).sort_list;
        let back_seek = self.tunables.back_seek;
        back_seek.choose_beside(requests, sorted, id)
    }

    /// `bfq_check_fifo()`.
    fn expired_head(
        &mut self,
        at: Moment,
        queue: QueueId,
        leaving: RequestId,
    ) -> Option<RequestId> {
        let queue = self.queue_mut(queue);
        if std::mem::replace(&mut queue.fifo_checked, true) {
            return None;
        }
        let head = queue.fifo.first().filter(|&head| head != leaving)?;
        (self.data[head].expires <= at.ns).then_some(head)
    }

    /// The request enters its queue. True if it is the next one now.
    pub(super) fn sort_in(&mut self, at: Moment, requests: &Requests, id: RequestId) -> bool {
        let queue = self.data[id].queue();
        let start = requests[id].start;
        self.queue_mut(queue).sort_list.insert(start, id);
        self.choose_again(at, requests, id)
    }

    /// The request may be better than the one that is next. True if that has changed (`bfq_choose_req()`).
    fn choose_again(&mut self, at: Moment, requests: &Requests, id: RequestId) -> bool {
        let queue = self.data[id].queue();
        let before = self.queue(queue).next_rq;
        let next = self
            .tunables
            .back_seek
            .choose(requests, before, Some(id), self.last_position);
        self.queue_mut(queue).next_rq = next;
        if next != before {
            self.file_position(at, requests, queue);
        }
        next != before
    }

    /// The request begins elsewhere: a bio was put before it (`bfq_request_merged()`).
    pub(super) fn moved(&mut self, at: Moment, requests: &Requests, id: RequestId, old: Sector) {
        let queue = self.data[id].queue();
        let start = requests[id].start;
        let sorted = &mut self.queue_mut(queue).sort_list;
        let before = sorted.predecessor(old, id);
        sorted.remove(old, id);
        sorted.insert(start, id);
        let passed = before.is_some_and(|before| start < requests[before].start);
        if passed && self.choose_again(at, requests, id) {
            self.adapt_budget(at, requests, queue);
        }
    }

    /// Takes a request out of its queue. One that is not in service and has nothing left is out of the
    /// schedule (`bfq_remove_request()`).
    pub(super) fn remove(&mut self, at: Moment, requests: &Requests, id: RequestId) {
        let queue = self.data[id].queue();
        if self.queue(queue).next_rq == Some(id) {
            let next = self.find_next(at, requests, id);
            self.queue_mut(queue).next_rq = next;
            self.adapt_budget(at, requests, queue);
        }
        let Bfq { queues, links, .. } = self;
        let entry = &mut queues[queue.index()];
        entry.fifo.remove(links, id);
        entry.queued[usize::from(requests[id].sync)] -= 1;
        entry.sort_list.remove(requests[id].start, id);
        let (empty, busy) = (entry.is_empty(), entry.busy);
        self.queued -= 1;
        if !empty {
            return self.file_position(at, requests, queue);
        }
        self.queue_mut(queue).next_rq = None;
        if busy && self.in_service_queue != Some(queue) {
            self.del_busy(at, queue, false);
            let entity = &mut self.queue_mut(queue).entity;
            (entity.budget, entity.service) = (0, 0);
        }
        self.file_position(at, requests, queue);
    }

    /// Puts a queue where its next request is, so that others find it. The second of two at the same
    /// sector is left out, and so is a queue that has been served for a while, or is of the idle class.
    /// `bfq_pos_tree_add_move()`.
    pub(super) fn file_position(&mut self, at: Moment, requests: &Requests, id: QueueId) {
        if self.rq_pos_tree.contains(id) {
            self.rq_pos_tree.remove(id);
        }
        if self.nonrot_with_queueing {
            return;
        }
        let queue = self.queue(id);
        let Some(next) = queue.next_rq else {
            return;
        };
        if queue.is_idle_class() || self.is_too_late_to_merge(at, id) {
            return;
        }
        let position = requests[next].start.as_u64();
        if !matches!(
            self.rq_pos_tree.descend(position),
            Some(super::red_black::Descent::At(_))
        ) {
            self.rq_pos_tree.insert(id, position, 0);
        }
    }

    /// When a request is old.
    pub(super) fn expiry(&self, at: Moment, sync: bool) -> i64 {
        at.ns + span(self.tunables.fifo_expire[usize::from(sync)])
    }
}
