//! A service tree: queues of one class and type in the order in which they are to be served.

use super::queue::QueueId;
use super::think::ThinkTime;
use crate::sorted::Sorted;
use crate::units::Time;

#[derive(Debug, Clone)]
pub(super) struct ServiceTree {
    queues: Sorted<i64, QueueId>,
    /// Think time of the tree's requests together.
    pub(super) think: ThinkTime,
}

impl ServiceTree {
    pub(super) fn new(now: Time) -> ServiceTree {
        ServiceTree {
            queues: Sorted::default(),
            think: ThinkTime::new(now),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.queues.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The queue to be served first, with its key.
    pub(super) fn first(&self) -> Option<(i64, QueueId)> {
        self.queues.first()
    }

    pub(super) fn insert(&mut self, key: i64, queue: QueueId) {
        self.queues.insert(key, queue);
    }

    pub(super) fn remove(&mut self, key: i64, queue: QueueId) {
        self.queues.remove(key, queue);
    }
}
