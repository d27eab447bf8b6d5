//! How many requests may be allocated: asynchronous ones and writes fewer than reads, still fewer while
//! a queue is weight-raised, and none beyond the share of a queue that has it.

use super::Bfq;
use crate::request::ProcessId;
use crate::scheduler::{Rule, TagLimit};

impl Bfq {
    /// Which tags a request of this kind may have: there are `tags` in words of `word`.
    ///
    /// With more than its share of all a queue gets the first tag of each word, and where limits hold in all no
    /// other than the very first: its process may then sleep until that one is given back, while
    /// nearly all others are free (`bfq_limit_depth()`).
    pub(super) fn tag_limit(
        &self,
        process: ProcessId,
        sync_read: bool,
        sync: bool,
        tags: u32,
        word: u32,
    ) -> Option<TagLimit> {
        let (depth, most) = if sync_read {
            (None, tags)
        } else {
            let in_all = self.kernel.follows(Rule::LimitInAll);
            let of = if in_all { tags } else { word };
            let depth = self.depth_of_kind(sync, of);
            (Some(depth), tags * depth / of.max(1))
        };
        let limit = |depth| self.kernel.tag_limit(depth, depth);
        if self.has_its_share(process, sync, most) {
            return Some(limit(1));
        }
        depth.map(limit)
    }

    /// `bfq_depth_updated()`. Where the queue has an `async_depth`, that is three quarters of its tags as soon as
    /// it was written once, and the others are parts of it.
    fn depth_of_kind(&self, sync: bool, of: u32) -> u32 {
        let raised = self.wr_busy_queues > 0;
        let depth = if self.kernel.follows(Rule::QueueAsyncDepth) {
            let async_depth = of * 3 / 4;
            match (raised, sync) {
                (false, false) => async_depth * 2 / 3,
                (false, true) => async_depth,
                (true, false) => async_depth / 4,
                (true, true) => async_depth / 2,
            }
        } else {
            let sixteenths = match (raised, sync) {
                (false, false) => 8,
                (false, true) => 12,
                (true, false) => 3,
                (true, true) => 6,
            };
            of * sixteenths / 16
        };
        depth.max(1)
    }

    /// The queue of the process has as many requests as its weight is worth among all (`bfqq_request_over_limit()`).
    fn has_its_share(&self, process: ProcessId, sync: bool, limit: u32) -> bool {
        let process = self.processes.find(process);
        let Some(id) = process.and_then(|process| self.queue_for(process, sync)) else {
            return false;
        };
        let queue = self.queue(id);
        if !queue.entity.in_sum {
            return false;
        }
        let higher = &self.service_trees[..=queue.class];
        let all = higher.iter().fold(0, |all, tree| 8 * all + tree.weights);
        let all = all.max(1);
        let share = (i64::from(limit) * queue.entity.weight + all / 2) / all;
        i64::from(queue.allocated) >= share
    }
}
