//! Are all queues treated alike? What a request is charged, and whether guarantees need idling, depend
//! on that.
//!
//! Queues are counted by weight while they have requests here or in the disk, those that are weight-raised are
//! not.

use super::Bfq;
use super::queue::{QueueId, sectors_of};
use crate::request::{RequestId, Requests};

/// What an asynchronous request costs more than a synchronous one.
const ASYNC_CHARGE: i64 = 3;

impl Bfq {
    /// The queue is counted under its present weight, if it is not counted yet (`bfq_weights_tree_add()`).
    pub(super) fn count_weight(&mut self, id: QueueId) {
        let queue = self.queue_mut(id);
        if queue.counted_weight.is_some() {
            return;
        }
        let weight = queue.entity.weight;
        queue.counted_weight = Some(weight);
        match self
            .weights
            .binary_search_by_key(&weight, |&(weight, _)| weight)
        {
            Ok(place) => self.weights[place].1 += 1,
            Err(place) => self.weights.insert(place, (weight, 1)),
        }
    }

    /// It is not counted any more (`bfq_weights_tree_remove()`).
    pub(super) fn uncount_weight(&mut self, id: QueueId) {
        let Some(weight) = self.queue_mut(id).counted_weight.take() else {
            return;
        };
        let place = self.weights.iter().position(|&(other, _)| other == weight);
        let place = place.expect("what is counted was counted before");
        self.weights[place].1 -= 1;
        if self.weights[place].1 == 0 {
            self.weights.remove(place);
        }
    }

    /// Queues have different weights or classes, seen from this one. One of the smallest weight sees no
    /// difference of weights (`bfq_asymmetric_scenario()`).
    pub(super) fn is_asymmetric(&self, id: QueueId) -> bool {
        let smallest = self.weights.first().map(|&(weight, _)| weight);
        let is_smallest = smallest.is_some() && self.queue(id).counted_weight == smallest;
        let classes = self.busy.iter().filter(|&&busy| busy > 0).count();
        self.weights.len() >= 2 && !is_smallest || classes >= 2
    }

    /// Sectors that a request takes of its queue's budget. Asynchronous ones cost more where all queues
    /// are alike (`bfq_serv_to_charge()`).
    pub(super) fn charge(&self, requests: &Requests, id: QueueId, request: RequestId) -> i64 {
        let length = sectors_of(&requests[request]);
        let queue = self.queue(id);
        if queue.sync || queue.is_weight_raised() || self.is_asymmetric(id) {
            length
        } else {
            length * ASYNC_CHARGE
        }
    }

    /// What the next request takes, and whether the budget has it (`bfq_bfqq_budget_left()`).
    pub(super) fn next_fits(&self, requests: &Requests, id: QueueId) -> bool {
        let queue = self.queue(id);
        queue
            .next_rq
            .is_some_and(|next| self.charge(requests, id, next) <= queue.budget_left())
    }

    /// Queues that have requests, or are kept as if they had (`bfq_tot_busy_queues()`).
    pub(super) fn busy_queues(&self) -> u32 {
        self.busy.iter().sum()
    }
}
