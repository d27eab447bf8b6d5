//! The requests of a queue in the order of positions, and which of them is best served next.

use super::Cfq;
use crate::request::{RequestId, Requests};
use crate::units::{Sector, Time};

impl Cfq {
    /// The best request after this one has gone (`cfq_find_next_rq()`).
    pub(super) fn find_next(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.queue(self.data_of(id).queue).sorted;
        let back_seek = self.tunables.back_seek;
        back_seek.choose_beside(requests, sorted, id)
    }

    /// `cfq_add_rq_rb()`.
    pub(super) fn sort_in(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let queue = self.data_of(id).queue;
        let request = &requests[id];
        let entry = self.queue_mut(queue);
        entry.queued[usize::from(request.sync)] += 1;
        entry.sorted.insert(request.start, id);
        if !entry.on_rr {
            self.add_to_rr(now, requests, queue);
        }
        let before = self.queue(queue).next;
        let next = self
            .tunables
            .back_seek
            .choose(requests, before, Some(id), self.last_position);
        self.queue_mut(queue).next = next;
        if before != next {
            self.place_among_cooperators(requests, queue);
        }
    }

    /// `cfq_del_rq_rb()`.
    pub(super) fn sort_out(&mut self, requests: &Requests, id: RequestId, start: Sector) {
        let queue = self.data_of(id).queue;
        let entry = self.queue_mut(queue);
        entry.queued[usize::from(requests[id].sync)] -= 1;
        entry.sorted.remove(start, id);
        if entry.on_rr && entry.sorted.is_empty() {
            self.leave_cooperators(queue);
        }
    }

    /// Takes a request out of its queue altogether (`cfq_remove_request()`).
    pub(super) fn remove(&mut self, requests: &Requests, id: RequestId) {
        let queue = self.data_of(id).queue;
        if self.queue(queue).next == Some(id) {
            let next = self.find_next(requests, id);
            self.queue_mut(queue).next = next;
        }
        let Cfq { queues, links, .. } = self;
        queues[queue.index()].fifo.remove(links, id);
        self.sort_out(requests, id, requests[id].start);
        self.rq_queued -= 1;
        if requests[id].prio {
            self.queue_mut(queue).prio_pending -= 1;
        }
    }
}
