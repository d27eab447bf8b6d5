//! The requests of a queue in the order of positions, and which of them is best served next.

use super::Cfq;
use crate::request::{RequestId, Requests};
use crate::units::{Sector, Time};

impl Cfq {
    /// Which of two requests is better served next, seen from `head`.
    pub(super) fn choose(
        &self,
        requests: &Requests,
        one: Option<RequestId>,
        other: Option<RequestId>,
        head: Sector,
    ) -> Option<RequestId> {
        let (Some(first), Some(second)) = (one, other) else {
            return one.or(other);
        };
        if first == second {
            return other;
        }
        let (a, b) = (&requests[first], &requests[second]);
        if a.sync != b.sync {
            return if a.sync { one } else { other };
        }
        if a.prio != b.prio {
            return if a.prio { one } else { other };
        }
        match (self.cost(a.start, head), self.cost(b.start, head)) {
            (Some(near), Some(far)) if near < far => one,
            (Some(far), Some(near)) if near < far => other,
            (Some(_), Some(_)) => {
                if a.start >= b.start {
                    one
                } else {
                    other
                }
            }
            (Some(_), None) => one,
            (None, Some(_)) => other,
            (None, None) => {
                if a.start <= b.start {
                    one
                } else {
                    other
                }
            }
        }
    }

    /// Forward distance, or backward with a penalty; nothing if it is too far back.
    pub(super) fn cost(&self, position: Sector, head: Sector) -> Option<u64> {
        let distance = position.distance(head).as_u64();
        if position >= head {
            Some(distance)
        } else if distance <= self.tunables.back_seek_max {
            Some(distance * self.tunables.back_seek_penalty)
        } else {
            None
        }
    }

    /// The best request after this one has gone.
    pub(super) fn find_next(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        let sorted = &self.queue(self.mark(id).queue).sorted;
        let (previous, next) = sorted.neighbours(requests[id].start, id);
        let next = next.or_else(|| sorted.first().map(|(_, first)| first));
        let next = next.filter(|&next| next != id);
        self.choose(requests, next, previous, requests[id].start)
    }

    pub(super) fn sort_in(&mut self, now: Time, requests: &Requests, id: RequestId) {
        let queue = self.mark(id).queue;
        let request = &requests[id];
        let entry = self.queue_mut(queue);
        entry.queued[usize::from(request.sync)] += 1;
        entry.sorted.insert(request.start, id);
        if !entry.on_rr {
            self.add_to_rr(now, requests, queue);
        }
        let before = self.queue(queue).next;
        let next = self.choose(requests, before, Some(id), self.last_position);
        self.queue_mut(queue).next = next;
        if before != next {
            self.place_among_cooperators(requests, queue);
        }
    }

    pub(super) fn sort_out(&mut self, requests: &Requests, id: RequestId, start: Sector) {
        let queue = self.mark(id).queue;
        let entry = self.queue_mut(queue);
        entry.queued[usize::from(requests[id].sync)] -= 1;
        entry.sorted.remove(start, id);
        if entry.on_rr && entry.sorted.is_empty() {
            self.leave_cooperators(queue);
        }
    }

    /// Takes a request out of its queue altogether.
    pub(super) fn remove(&mut self, requests: &Requests, id: RequestId) {
        let queue = self.mark(id).queue;
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
