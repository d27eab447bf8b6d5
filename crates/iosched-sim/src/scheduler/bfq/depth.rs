//! How many requests may be allocated: asynchronous ones and writes fewer than reads, still fewer while
//! a queue is raised, and none beyond the share of a queue that has it.

use super::Bfq;
use crate::request::ProcessId;

impl Bfq {
    /// Bits of each word of tags that a request of this kind may use, of `word`; there are `tags` in all.
    pub(super) fn depth(
        &self,
        process: ProcessId,
        sync_read: bool,
        sync: bool,
        tags: u32,
        word: u32,
    ) -> Option<u32> {
        let depth = (!sync_read).then(|| self.depth_of_kind(sync, word));
        let limit = depth.map_or(tags, |depth| tags * depth / word.max(1));
        if self.has_its_share(process, sync, limit) {
            return Some(1);
        }
        depth
    }

    fn depth_of_kind(&self, sync: bool, word: u32) -> u32 {
        let sixteenths = match (self.raised_busy > 0, sync) {
            (false, false) => 8,
            (false, true) => 12,
            (true, false) => 3,
            (true, true) => 6,
        };
        (word * sixteenths / 16).max(1)
    }

    /// The queue of the process has as many requests as its weight is worth among all.
    fn has_its_share(&self, process: ProcessId, sync: bool, limit: u32) -> bool {
        let process = self.processes.find(process);
        let Some(id) = process.and_then(|process| self.queue_for(process, sync)) else {
            return false;
        };
        let queue = self.queue(id);
        if !queue.entity.in_sum {
            return false;
        }
        let higher = &self.trees[..=queue.class];
        let all = higher.iter().fold(0, |all, tree| 8 * all + tree.weights);
        let all = all.max(1);
        let share = (i64::from(limit) * queue.entity.weight + all / 2) / all;
        i64::from(queue.allocated) >= share
    }
}
