//! Budgets: how many sectors a queue is served before another one's turn.
//!
//! The largest is what the disk does in one slice at its peak rate. A queue that uses up its budget gets a
//! larger one, one that has too little to do a smaller one.

use super::Bfq;
use super::expire::Reason;
use super::moment::Moment;
use super::queue::QueueId;
use crate::request::Requests;

/// The largest budget until slices have taught a better one, in sectors.
pub(super) const FIRST_MAX_BUDGET: i64 = 16 * 1024;

/// From this average of slices on (the eleventh) the largest budget is the one that was learnt.
const ENOUGH_SLOTS: i64 = 194;

impl Bfq {
    fn knows_budgets(&self) -> bool {
        self.budgets_assigned >= ENOUGH_SLOTS
    }

    /// The largest budget for queues that are new (`bfq_max_budget()`).
    pub(super) fn full_budget(&self) -> i64 {
        if self.knows_budgets() {
            self.max_budget
        } else {
            FIRST_MAX_BUDGET
        }
    }

    /// The smallest budget (`bfq_min_budget()`).
    pub(super) fn min_budget(&self) -> i64 {
        self.full_budget() / 32
    }

    /// What the disk does in one slice at this rate. It stays as it is where it was set.
    /// `update_thr_responsiveness_params()`, `bfq_calc_max_budget()`.
    pub(super) fn learn_max_budget(&mut self) {
        if self.tunables.max_budget.is_none() {
            let millis = self.clock.millis(self.tunables.timeout);
            let whole = self.rate.peak.saturating_mul(1000).saturating_mul(millis);
            self.max_budget = (whole >> super::rate::SHIFT).min(i32::MAX.into());
        }
    }

    /// The least rate from which this largest budget follows.
    pub(super) fn rate_of_budget(&self, budget: i64) -> i64 {
        let millis = self.clock.millis(self.tunables.timeout).max(1);
        let whole = budget << super::rate::SHIFT;
        (whole + 1000 * millis - 1) / (1000 * millis)
    }

    /// One slice more was given.
    pub(super) fn count_slice(&mut self) {
        self.budgets_assigned = (7 * self.budgets_assigned + 256) / 8;
    }

    /// The budget for the next slice, after one that ended for this reason. A preempted queue keeps its own.
    /// `__bfq_bfqq_recalc_budget()`.
    pub(super) fn set_next_budget(&mut self, requests: &Requests, id: QueueId, reason: Reason) {
        let (min, max) = (self.min_budget(), self.max_budget);
        let queue = self.queue(id);
        let plain = !queue.is_weight_raised();
        let old = queue.max_budget;
        let budget = if !queue.sync {
            max
        } else if plain {
            match reason {
                Reason::TooIdle if queue.dispatched > 0 => max.min(2 * old),
                Reason::TooIdle if old > 5 * min => old - 4 * min,
                Reason::TooIdle => min,
                Reason::Timeout => max.min(2 * old),
                Reason::Exhausted => max.min(4 * old),
                Reason::NoMore => queue.entity.service.max(min),
                Reason::Preempted => return,
            }
        } else {
            2 * min
        };
        let capped = self.knows_budgets() && self.tunables.max_budget.is_none();
        let budget = if capped { budget.min(max) } else { budget };
        self.queue_mut(id).max_budget = budget;
        if let Some(next) = self.queue(id).next_rq {
            let charge = self.charge(requests, id, next);
            self.queue_mut(id).entity.budget = budget.max(charge);
        }
    }

    /// The next request of a waiting queue has changed: so does its budget, and with it its place.
    /// `bfq_updated_next_req()`.
    pub(super) fn adapt_budget(&mut self, at: Moment, requests: &Requests, id: QueueId) {
        let Some(next) = self
            .queue(id)
            .next_rq
            .filter(|_| self.in_service_queue != Some(id))
        else {
            return;
        };
        let charge = self.charge(requests, id, next);
        let queue = self.queue(id);
        let budget = queue.max_budget.max(charge).max(queue.entity.service);
        if queue.entity.budget != budget {
            self.queue_mut(id).entity.budget = budget;
            self.requeue(at, id, false);
        }
    }
}
