//! Bursts: many queues that begin shortly after one another belong to a service that starts, and not to
//! someone who waits. Their weight is not raised.

use super::Bfq;
use super::moment::{LONG_AGO, Moment};
use super::queue::QueueId;

/// A burst of as many queues is large.
const LARGE: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Burst {
    pub(super) large: bool,
    /// Queues of a burst that is not large yet.
    pub(super) listed: Vec<QueueId>,
    /// How many were in it; more than are listed where some are gone.
    pub(super) size: usize,
    /// Tick in which a queue was last looked at.
    pub(super) last: i64,
}

impl Default for Burst {
    fn default() -> Burst {
        Burst {
            large: false,
            listed: Vec::new(),
            size: 0,
            last: LONG_AGO,
        }
    }
}

impl Bfq {
    /// A queue that has just begun may be part of a burst (`bfq_handle_burst()`).
    pub(super) fn note_burst(&mut self, at: Moment, id: QueueId) {
        let (interval, after_split) = (self.clock.burst, self.clock.after_split);
        let queue = self.queue(id);
        let split_lately = queue.split_time + after_split >= at.tick;
        if self.burst.listed.contains(&id) || queue.in_large_burst || split_lately {
            return;
        }
        if self.burst.last + interval < at.tick {
            self.begin_burst(id);
        } else if self.burst.large {
            self.queue_mut(id).in_large_burst = true;
        } else {
            self.join_burst(id);
        }
        self.burst.last = at.tick;
    }

    /// `bfq_reset_burst_list()`.
    fn begin_burst(&mut self, id: QueueId) {
        self.burst.large = false;
        self.burst.listed.clear();
        self.burst.size = 0;
        if self.busy_queues() == 0 {
            self.burst.listed.push(id);
            self.burst.size = 1;
        }
    }

    /// `bfq_add_to_burst()`.
    fn join_burst(&mut self, id: QueueId) {
        self.burst.size += 1;
        self.burst.listed.push(id);
        if self.burst.size == LARGE {
            self.burst.large = true;
            for listed in std::mem::take(&mut self.burst.listed) {
                self.queue_mut(listed).in_large_burst = true;
            }
        }
    }

    /// The queue has been idle for long: it has nothing to do with the burst in which it began.
    pub(super) fn leave_burst(&mut self, id: QueueId) {
        self.burst.listed.retain(|&listed| listed != id);
        self.queue_mut(id).in_large_burst = false;
    }
}
