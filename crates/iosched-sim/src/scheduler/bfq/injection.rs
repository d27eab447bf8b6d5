//! Injection: requests of other queues that go in while the disk is kept idle for the queue in service,
//! as many as do not make its own requests slower.
//!
//! How many is learnt: the time from the arrival of a request in an empty queue to its completion is
//! measured, without injection (the baseline) and with it.

use super::Bfq;
use super::moment::Moment;
use super::queue::{LARGE, QueueId};
use crate::request::{RequestId, Requests};
use crate::scheduler::Rule;

impl Bfq {
    /// Which queue may be served in place of the one in service, which waits.
    pub(super) fn choose_injected(&mut self, requests: &Requests, id: QueueId) -> Option<QueueId> {
        if let Some(other) = self.own_async_queue(requests, id) {
            return Some(other);
        }
        let queue = self.queue(id);
        let waker = queue.waking.waker;
        let woken = queue.waking.woken.first().copied();
        for other in [waker, woken].into_iter().flatten() {
            if self.queue(other).busy && self.next_fits(requests, other) {
                return Some(other);
            }
        }
        let tolerant =
            !queue.is_weight_raised() || self.wr_busy_queues > 1 || !queue.has_short_ttime;
        if self.idling_boosts(id) || !tolerant {
            return None;
        }
        self.choose_any(requests, id)
    }

    /// The asynchronous queue of the process, where its own request comes next there.
    fn own_async_queue(&self, requests: &Requests, id: QueueId) -> Option<QueueId> {
        let owner = self.queue(id).owner?;
        let other = self.processes[owner].async_queue?;
        let queue = self.queue(other);
        let next = queue.next_rq.filter(|_| queue.busy)?;
        let own = self.data[next].process() == owner;
        (own && self.next_fits(requests, other)).then_some(other)
    }

    /// Any queue that waits, the one that began to last first (`bfq_choose_bfqq_for_injection()`).
    fn choose_any(&mut self, requests: &Requests, id: QueueId) -> Option<QueueId> {
        let queue = self.queue(id);
        let limit = queue.injection.limit;
        if self.rq_in_driver >= limit {
            return None;
        }
        let all = !queue.is_weight_raised() || !queue.has_short_ttime;
        let mut waiting = self.active_list.iter().rev().copied();
        let found = waiting.find(|&other| {
            let may = all || self.queue(other).is_weight_raised();
            may && self.next_fits(requests, other)
                && self.rq_in_driver < self.limit_for(requests, limit, other)
        });
        self.rqs_injected |= found.is_some();
        found
    }

    /// Requests in the disk with which this queue's next one may go in.
    fn limit_for(&self, requests: &Requests, limit: u64, other: QueueId) -> u64 {
        let next = self.queue(other).next_rq;
        let large = next.is_some_and(|next| requests[next].length >= LARGE);
        if self.rotational || !large {
            limit
        } else if !self.kernel.follows(Rule::BfqActuators) {
            limit.min(1)
        } else {
            u64::from(self.rq_in_driver == 0)
        }
    }

    /// What was learnt of the queue does not hold any more (`bfq_reset_inject_limit()`).
    pub(super) fn reset_injection(&mut self, at: Moment, id: QueueId) {
        self.waited_rq = None;
        let queue = self.queue_mut(id);
        queue.injection.baseline = None;
        queue.injection.limit = u64::from(!queue.has_short_ttime);
        queue.injection.decreased = at.tick;
    }

    /// A request has come for a process that had none: the time that it takes may be measured.
    pub(super) fn begin_measurement(&mut self, at: Moment, id: QueueId) {
        let (renewal, settles) = (self.clock.inject_renewal, self.clock.after_split);
        if self.queue(id).injection.decreased + renewal <= at.tick {
            self.reset_injection(at, id);
        }
        let injection = &self.queue(id).injection;
        let beside_others = injection.baseline.is_some() && self.rqs_injected;
        if self.in_service_queue == Some(id)
            && (self.rq_in_driver == 0 || beside_others)
            && injection.decreased + settles <= at.tick
        {
            self.last_empty_occupied_ns = at.ns;
            self.wait_dispatch = true;
            self.rqs_injected &= self.rq_in_driver > 0;
        }
    }

    /// The measured request has completed; it still counts as being in the disk (`bfq_update_inject_limit()`).
    pub(super) fn end_measurement(&mut self, at: Moment, id: QueueId, request: RequestId) {
        if self.waited_rq != Some(request) {
            return;
        }
        let taken = at.ns - self.last_empty_occupied_ns;
        let (injected, alone) = (self.rqs_injected, self.rq_in_driver == 1);
        let most = self.hw_tag.max_rq_in_driver;
        let injection = &mut self.queue_mut(id).injection;
        let old_limit = injection.limit;
        match injection.baseline {
            Some(baseline) if injected => {
                let threshold = baseline * 3 / 2;
                if taken >= threshold && old_limit > 0 {
                    injection.limit -= 1;
                    injection.decreased = at.tick;
                } else if taken < threshold && old_limit <= most {
                    injection.limit += 1;
                }
            }
            _ => {}
        }
        match injection.baseline {
            None if alone => {
                injection.limit = old_limit.max(1);
                injection.baseline = Some(taken);
            }
            Some(baseline) if taken < baseline || !injected && alone => {
                injection.baseline = Some(taken);
            }
            _ => {}
        }
        self.waited_rq = None;
        self.rqs_injected = false;
    }
}
